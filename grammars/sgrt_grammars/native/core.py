"""The native implementation of the automaton's seam."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from sgrt_grammars.automaton.core import CoreCursor
from sgrt_grammars.automaton.deferred import DeferredTable
from sgrt_grammars.expression import Expression
from sgrt_grammars.limits import Limits
from sgrt_grammars.mask import TokenMask, num_mask_words
from sgrt_grammars.native.library import BUSY, NEEDS_UNFOLDING, Library
from sgrt_grammars.native.program import Programs
from sgrt_grammars.native.schemas import Schemas
from sgrt_grammars.vocabulary import Vocabulary

_ROOM = 4096


class NativeCore:
    """One native machine. Its calls lock it; only deferred expressions are built in Python, between calls."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits, library: Library) -> None:
        self.library = library
        self.vocabulary = vocabulary
        # Native calls lock the machine one by one, so that long operations of others come between them.
        self.lock: AbstractContextManager[object] = nullcontext()
        self._limits = limits
        self._deferred = DeferredTable()
        self._building = threading.RLock()
        data, offsets = _joined(vocabulary)
        ends = np.array(vocabulary.end_token_ids, np.int32)
        machine = library.functions["machine"](
            vocabulary.size,
            data.ctypes.data,
            offsets.ctypes.data,
            ends.ctypes.data,
            len(ends),
            limits.max_states,
            limits.max_mask_nodes,
            limits.max_operation_bytes,
        )
        if not machine:
            raise MemoryError("no memory for the grammar automaton")
        self.machine = machine
        self._free = weakref.finalize(self, library.functions["machine_free"], machine)
        self._schemas = Schemas(library, machine, self._build)
        self._programs = Programs(self._deferred, self._schemas)

    def call(self, function: Callable[..., int], *arguments: object, given: int = 0) -> int:
        """Call until no deferred expression is missing; codes become errors."""
        while True:
            result = function(*arguments)
            if result >= 0 or result == BUSY:
                return result
            if result != NEEDS_UNFOLDING:
                raise self.library.error(result, given)
            self.unfold()

    def unfold(self) -> None:
        """Build the deferred expression, or the value of a schema, that this thread's operation waits for."""
        with self._building:
            number, schema = self.library.held["detail"](0), self.library.held["detail"](2)
            if schema >= 0:
                root = self._build(self._schemas.value(schema, self.library.message()))
                self.library.functions["define_value"](self.machine, number, root)
            else:
                root = self._build(self._deferred.build(number))
                self.library.functions["define"](self.machine, number, root)

    def root(self, expression: Expression) -> int:
        """Intern an expression."""
        with self._building:
            return self._build(expression)

    def _build(self, expression: Expression) -> int:
        program = self._programs.write(expression)
        results: NDArray[np.int32] = np.empty(self._programs.num_noted, np.int32)
        root = self.library.functions["build"](
            self.machine, program, len(program), results.ctypes.data, len(results)
        )
        if root < 0:
            raise self.library.error(root)
        self._programs.note(results.tolist())
        return root

    def cursor(self, root: int) -> NativeCursor:
        """A position at the start of `root`."""
        return NativeCursor(self, self.library.held["cursor"](self.machine, root))

    def start_operation(self, time_s: float) -> None:
        """Give the next operation of this thread a fresh budget."""
        self.library.functions["start"](time_s)

    def fill(self, cursors: Sequence[CoreCursor], rows: TokenMask, remaining: Sequence[int | None]) -> None:
        """Fill one row of `rows` for each cursor in one call that gives up the interpreter."""
        if not (rows.flags.writeable and rows.dtype == np.uint32 and rows.strides[1] == 4):
            raise ValueError("mask rows must be a writable array of uint32 with contiguous rows")
        handles: NDArray[np.uintp] = np.array(
            [cursor.handle for cursor in cursors if isinstance(cursor, NativeCursor)], np.uintp
        )
        budgets = np.array([-1 if budget is None else budget for budget in remaining], np.int64)
        done: NDArray[np.int64] = np.zeros(1, np.int64)
        arguments = (handles.ctypes.data, rows.ctypes.data, rows.strides[0] // 4, budgets.ctypes.data)
        function = self.library.functions["masks"]
        is_begun = False
        while True:
            code = function(*arguments, len(handles), done.ctypes.data, self.time_s, is_begun)
            if code >= 0:
                return
            if code != NEEDS_UNFOLDING:
                raise self.library.error(code, int(budgets[done[0]]))
            self.unfold()
            is_begun = True

    def is_alive(self, root: int) -> bool:
        """Whether some text belongs to `root`."""
        return bool(self.call(self.library.functions["is_alive"], self.machine, root))

    def clear_masks(self) -> None:
        """Forget cached masks."""
        self.library.functions["clear_masks"](self.machine)

    @property
    def num_bytes(self) -> int:
        """Memory held, roughly."""
        return self.library.functions["bytes"](self.machine)

    @property
    def time_s(self) -> float:
        """Seconds one operation may take."""
        return self._limits.operation_time_s


class NativeCursor:
    """A native cursor, freed with this object."""

    __slots__ = (
        "__weakref__",
        "_core",
        "_fill",
        "_free",
        "_held",
        "_last_out",
        "_last_pointer",
        "_take",
        "_time_s",
        "handle",
    )

    def __init__(self, core: NativeCore, handle: int) -> None:
        self._core = core
        self._held = core.library.held
        self._fill = self._held["mask_at_hand"]
        self._take = self._held["advance_at_hand"]
        self._time_s = core.time_s
        self.handle = handle
        self._free = weakref.finalize(self, core.library.held["cursor_free"], handle)
        self._free.atexit = False
        self._last_out: TokenMask | None = None
        self._last_pointer = 0

    def fork(self) -> NativeCursor:
        """An independent copy."""
        return NativeCursor(self._core, self._held["cursor_fork"](self.handle))

    def mask_at_hand(self, row: TokenMask, remaining: int | None) -> bool:
        """Fill the row, if that is brief; False if it is to be filled by `mask`."""
        if not (row is self._last_out or self._takes(row)) or (remaining is not None and remaining < 0):
            return False
        limit = -1 if remaining is None else remaining
        code = self._fill(self.handle, self._last_pointer, limit, self._time_s)
        while code == NEEDS_UNFOLDING:
            self._core.unfold()
            code = self._fill(self.handle, self._last_pointer, limit, 0.0)
        return code == 0

    def mask(self, row: TokenMask, remaining: int | None) -> None:
        """Fill `row`."""
        if not self._takes(row):
            raise ValueError("a mask row must be a writable, contiguous array of uint32")
        if remaining is not None and remaining < 0:
            raise ValueError(f"a budget cannot be negative: {remaining}")
        core, limit = self._core, -1 if remaining is None else remaining
        core.call(core.library.functions["mask"], self.handle, self._last_pointer, limit, given=limit)

    def _takes(self, row: TokenMask) -> bool:
        """Whether the row can be filled; its address is kept, as the next one is likely to be the same."""
        flags = row.flags
        is_fit = flags.c_contiguous and flags.writeable and row.dtype == np.uint32
        if not is_fit or len(row) != num_mask_words(self._core.vocabulary.size):
            return False
        self._last_out, self._last_pointer = row, row.ctypes.data
        return True

    def node_mask(self) -> tuple[int, TokenMask] | None:
        """(id, row) of a mask that depends on no register."""
        row: TokenMask = np.zeros(num_mask_words(self._core.vocabulary.size), np.uint32)
        number = self._core.call(self._core.library.functions["node_mask"], self.handle, row.ctypes.data)
        return None if number == BUSY else (number, row)

    def advance(self, token: int) -> bool:
        """Take `token` if it is allowed."""
        result = self._take(self.handle, token, self._time_s)
        if result < 0:
            self._core.start_operation(self._core.time_s)
            result = self._core.call(self._core.library.functions["advance"], self.handle, token)
        return result == 1

    def rollback(self, count: int) -> None:
        """Take back `count` tokens."""
        steps = self._held["num_steps"](self.handle)
        if not 0 <= count <= steps:
            raise ValueError(f"cannot roll back {count} of {steps} tokens")
        self._held["rollback"](self.handle, count)

    def _list(self, name: str, *more: int) -> tuple[int, ...]:
        function = self._core.library.functions[name]
        room = _ROOM
        while True:
            out: NDArray[np.int32] = np.empty(room, np.int32)
            count = self._core.call(function, self.handle, out.ctypes.data, room, *more)
            if count <= room:
                return tuple(out[:count].tolist())
            room = count

    def witness(self, within: int | None = None) -> tuple[int, ...]:
        """Tokens that complete the text; with `within`, at most so many where any such are known."""
        return self._list("witness", -1 if within is None else within)

    def forced(self) -> tuple[int, ...]:
        """Symbols that must follow."""
        return self._list("forced")

    def choices(self) -> list[int]:
        """Symbols that may come next."""
        return list(self._list("choices"))

    @property
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self._core.call(self._core.library.functions["is_accepting"], self.handle) == 1

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing but the end can follow."""
        return self._core.call(self._core.library.functions["is_exhausted"], self.handle) == 1


def _joined(vocabulary: Vocabulary) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The text tokens' bytes one after the other, and where each starts (and the last ends)."""
    ends = set(vocabulary.end_token_ids)
    texts = [b"" if t is None or i in ends else t for i, t in enumerate(vocabulary.tokens)]
    offsets: NDArray[np.int64] = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=offsets[1:])
    return np.frombuffer(b"".join(texts) or b"\0", np.uint8), offsets
