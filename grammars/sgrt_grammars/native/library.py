"""The compiled library: its functions with their types, and its codes as errors."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from ctypes import c_char_p, c_double, c_int32, c_int64, c_void_p
from pathlib import Path

from sgrt_grammars.errors import (
    BudgetTooSmall,
    CompileLimitExceeded,
    GrammarError,
    InvalidConstraint,
    UnsatisfiableConstraint,
)
from sgrt_native import load_library

NEEDS_UNFOLDING, LIMIT, INVALID, BUDGET, UNSATISFIABLE, BUSY = -1, -2, -3, -4, -5, -6

Function = Callable[..., int]

_Argument = type[c_int32] | type[c_int64] | type[c_void_p] | type[c_char_p] | type[c_double]

_SIGNATURES: dict[str, tuple[_Argument, ...]] = {
    "machine": (c_int32, c_void_p, c_void_p, c_void_p, c_int32, c_int64, c_int64, c_int64),
    "machine_free": (c_void_p,),
    "detail": (c_int32,),
    "message": (),
    "build": (c_void_p, c_char_p, c_int64, c_void_p, c_int64),
    "define": (c_void_p, c_int32, c_int32),
    "spelling": (c_void_p, c_void_p, c_char_p, c_int32),
    "schema": (c_void_p, c_int32, c_char_p, c_int64, c_int32),
    "define_value": (c_void_p, c_int32, c_int32),
    "is_alive": (c_void_p, c_int32),
    "start": (c_double,),
    "bytes": (c_void_p,),
    "nodes": (c_void_p,),
    "cursor": (c_void_p, c_int32),
    "cursor_fork": (c_void_p,),
    "cursor_free": (c_void_p,),
    "mask": (c_void_p, c_void_p, c_int64),
    "mask_at_hand": (c_void_p, c_void_p, c_int64, c_double),
    "advance_at_hand": (c_void_p, c_int32, c_double),
    "advance": (c_void_p, c_int32),
    "rollback": (c_void_p, c_int64),
    "num_steps": (c_void_p,),
    "is_accepting": (c_void_p,),
    "is_exhausted": (c_void_p,),
    "node_mask": (c_void_p, c_void_p),
    "witness": (c_void_p, c_void_p, c_int64, c_int64),
    "forced": (c_void_p, c_void_p, c_int64),
    "choices": (c_void_p, c_void_p, c_int64),
    "masks": (c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_double, c_int32),
    "clear_masks": (c_void_p,),
}
_POINTERS = frozenset({"machine", "cursor", "cursor_fork"})
_NOTHING = frozenset({"machine_free", "cursor_free", "start", "clear_masks", "define", "define_value"})


class Library:
    """`functions` give up the interpreter while they run; `held` keep it, for calls of a microsecond."""

    def __init__(self) -> None:
        folder = Path(__file__).parent / "core"
        units = sorted(folder.glob("units/*.cc"))
        flags = ["-O2", f"-DSGRT_SOURCES={_digest(folder)}"]
        loaded = load_library("sgrt_grammars", units, include=[folder], flags=flags)
        self._loaded = loaded
        self.functions = _typed(loaded)
        self.held = _typed(ctypes.PyDLL(loaded._name))

    def message(self) -> str:
        """The text of this thread's last error."""
        text: object = self.functions["message"]()
        return text.decode() if isinstance(text, bytes) else ""

    def error(self, code: int, given: int = 0) -> GrammarError:
        """The error a code stands for."""
        if code == BUDGET:
            return BudgetTooSmall(needed=self.functions["detail"](1), given=given)
        if code == UNSATISFIABLE:
            return UnsatisfiableConstraint("no text of this vocabulary completes the constraint")
        if code == LIMIT:
            limit = self.message()
            return CompileLimitExceeded(
                f"the grammar ran out of its budget Limits.{limit}; simplify the constraint or raise it",
                limit=limit,
            )
        return InvalidConstraint(self.message())


def _digest(folder: Path) -> str:
    """Of the sources that the units include: what is built goes by their content."""
    digest = hashlib.sha256()
    for source in sorted(folder.glob("*.cc")):
        digest.update(source.name.encode() + source.read_bytes())
    return f"0x{digest.hexdigest()[:15]}"


def _typed(library: ctypes.CDLL) -> dict[str, Function]:
    functions: dict[str, Function] = {}
    for name, arguments in _SIGNATURES.items():
        function = library[f"sgrt_{name}"]
        function.argtypes = arguments
        function.restype = (
            c_void_p
            if name in _POINTERS
            else c_char_p
            if name == "message"
            else None
            if name in _NOTHING
            else c_int64
        )
        functions[name] = function
    return functions
