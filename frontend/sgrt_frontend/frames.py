"""Tracebacks as their reader wants them: the lines of the program, without the runtime's own."""

from __future__ import annotations

import asyncio
import concurrent.futures
from types import TracebackType

from sgrt_frontend.errors import SgrtError
from sgrt_frontend.source import is_own_code

_MACHINERY = (*asyncio.__path__, *concurrent.futures.__path__)


EXITS = (SystemExit, KeyboardInterrupt)
"""What ends a process: raised in a task, it would end the loop and with it every other run there."""


class Exit(Exception):
    """Carries one of `EXITS` out of a body and past the loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"the body ended by {type(error).__name__}: {error}")
        self.error = error


class UserFrames:
    """A block at the border to user code: a failure leaves it with the frames of user code alone, an exit as itself.

    What the runtime did not raise on purpose keeps the frames behind the user's last line: they say where it lies.
    """

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exit):
            keep_user_frames(error.error)
            raise error.error from error.error.__cause__
        if error is not None:
            keep_user_frames(error)


def keep_user_frames(error: BaseException) -> None:
    """Take the runtime's frames out of an error's traceback, and those of the machinery that it called."""
    frames: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    is_user = _users(frames)
    last = max((place for place, found in enumerate(is_user) if found), default=-1)
    keeps_rest = not isinstance(error, SgrtError)
    kept: TracebackType | None = None
    for place in reversed(range(len(frames))):
        if is_user[place] or (keeps_rest and place > last):
            frame = frames[place]
            kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    error.__traceback__ = kept


def _users(frames: list[TracebackType]) -> list[bool]:
    """Which frames are user code, or what user code called."""
    found: list[bool] = []
    for frame in frames:
        file = frame.tb_frame.f_code.co_filename
        is_called_by_us = bool(found) and not found[-1]
        found.append(not is_own_code(file) and not (is_called_by_us and file.startswith(_MACHINERY)))
    return found
