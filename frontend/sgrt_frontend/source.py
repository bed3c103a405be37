"""Where in a user's program something was written."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_OWN_FOLDER = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Source:
    """A line of a program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def is_own_code(file: str) -> bool:
    """Whether a file is part of this package."""
    return file.startswith(_OWN_FOLDER)


def caller_source() -> Source:
    """The innermost line on the stack that is not part of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own_code(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return Source("<unknown>", 0)
    return Source(frame.f_code.co_filename, frame.f_lineno)


def passed_through(error: BaseException) -> Source | None:
    """The outermost line of an error's traceback that is not part of this package; None if there is none."""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_own_code(file):
            return Source(file, trace.tb_lineno)
        trace = trace.tb_next
    return None


def raised_at(error: BaseException) -> Source:
    """The innermost line of an error's traceback that is not part of this package."""
    found = Source("<unknown>", 0)
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_own_code(file):
            found = Source(file, trace.tb_lineno)
        trace = trace.tb_next
    return found
