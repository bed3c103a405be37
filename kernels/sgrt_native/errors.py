"""Why native code cannot be used."""

from __future__ import annotations


class NativeUnavailable(RuntimeError):
    """No native library can be had here; the message says why and what would help."""
