"""Builds small C and C++ sources with the system's compiler, caches the libraries and loads them by ctypes.

A leaf without torch: kernels and grammars share it.
"""

from sgrt_native.errors import NativeUnavailable
from sgrt_native.library import load_library

__all__ = ["NativeUnavailable", "load_library"]
