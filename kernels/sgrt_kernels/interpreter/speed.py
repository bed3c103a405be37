"""Half the time in Triton's interpreter: its patches of `triton.language` are made once per launch.

`tl.sum`, `tl.max` and `tl.cdiv` are kernels of their own, and the stock interpreter patches the whole language again
for each of their calls.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import triton.language as tl
import triton.runtime.interpreter as stock

Patches = Any  # what stock._patch_lang returns
Kernel = Any


class _Scope:
    """Patches in force; `restore` undoes them where this scope made them."""

    def __init__(self, depth: list[int], patched: Patches | None) -> None:
        self._depth = depth
        self._patched = patched

    def restore(self) -> None:
        """Leave the scope."""
        if self._patched is not None:
            self._depth[0] -= 1
            if hasattr(self._patched, "restore"):
                self._patched.restore()


def install(*, sanitize: bool) -> None:
    """Patch once per launch; `sanitize` turns on the checks of integer overflow and device_assert."""
    if stock._patch_lang.__module__ != __name__:
        stock._patch_lang = _patching_once(stock._patch_lang)
    stock.interpreter_builder.options = dataclasses.replace(
        stock.interpreter_builder.options, debug=sanitize, sanitize_overflow=sanitize
    )


def _patching_once(original: Callable[..., Any]) -> Callable[..., _Scope]:
    depth = [0]
    both_modules = types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core})

    def patch(function: Kernel) -> _Scope:
        if depth[0]:
            return _Scope(depth, None)
        scope = original(both_modules)
        depth[0] += 1
        return _Scope(depth, scope)

    return patch
