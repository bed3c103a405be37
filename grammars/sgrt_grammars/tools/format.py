"""A format: how one family of models writes tool calls and thoughts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sgrt_grammars.tools.parts import Mark, Part


class Rejected(Enum):
    """What becomes of text that began like a call and is none."""

    DROPPED = "dropped"  # it began with a mark that means nothing else
    CONTENT = "content"  # it began like ordinary text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningFormat:
    """Marks around thoughts; the prompt may have opened them already. `header` may follow `begin`.

    `written_end` is what is generated after `end`. With `ends_at_call` a call ends thoughts that were not ended.
    """

    begin: str
    end: str
    header: str = ""
    written_end: str = ""
    ends_at_call: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFormat:
    """One way to write calls.

    - Without `end`, `begin` opens one call.
    - With `call_begin` and `end`, `begin` opens a section in which every call has its own mark.
    - With `end` alone, `begin` and `opening` open a list of calls with `separator` between them.

    `is_begin_part`: `begin` is the first text of the call itself and is read again as such.
    """

    begin: str
    parts: tuple[Part, ...]
    opening: str = ""
    call_begin: str = ""
    separator: str = ""
    end: str = ""
    is_begin_part: bool = False
    only_at_start: bool = False
    rejected: Rejected = Rejected.DROPPED

    @property
    def last_mark(self) -> str:
        """The mark that ends a call, or nothing when its last part ends by itself."""
        last = self.parts[-1]
        return last.text if isinstance(last, Mark) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """Everything about one family. The first of `calls` is the one that is generated; all are read.

    `wrappers` are marks around content that are not part of it. `trims_content` drops white space where
    content meets a mark.
    """

    name: str
    calls: tuple[CallFormat, ...]
    reasoning: ReasoningFormat | None = None
    wrappers: tuple[str, ...] = ()
    trims_content: bool = True
    template_marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFormat:
    """A family that writes messages with headers: a channel each, and a recipient where it calls a tool.

    A header runs from `start` (or the beginning of the output) to `message`; the body runs to one of `ends`.
    """

    name: str
    start: str
    channel: str
    message: str
    ends: tuple[str, ...]
    call_end: str
    constrain: str
    recipient: str
    function_prefix: str
    reasoning_channels: tuple[str, ...]
    content_channels: tuple[str, ...]
    template_marks: tuple[str, ...] = ()


Format = ToolFormat | ChannelFormat
