"""What a client sees of one output, as a sequence of deltas.

Whole answers and streams are made from the same deltas, so they cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from sgrt_frontend.call import Chunk, Finish, StopReason, TokenInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """A piece of tool call number `position`: its head (id and name) once, then pieces of its arguments."""

    position: int
    call_id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an output ended, in the words of the wire."""

    finish_reason: str
    stop_reason: str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of an output. At most one of `content`, `reasoning` and `call` is set."""

    content: str = ""
    reasoning: str = ""
    call: CallDelta | None = None
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenInfo, ...] = ()
    ending: Ending | None = None

    @property
    def is_visible(self) -> bool:
        """Whether it carries anything a client would miss, apart from the ending."""
        return bool(self.content or self.reasoning or self.call or self.logprobs or self.token_ids)


class PlainReader:
    """Deltas of an output that is content and nothing else. `is_free`: its constraint closes nothing."""

    num_reasoning_tokens = 0

    def __init__(self, *, is_free: bool = False) -> None:
        self._is_free = is_free

    def read(self, chunk: Chunk) -> list[Delta]:
        """The deltas of one chunk; the last one ends the output if the chunk does."""
        ending = None if chunk.finish is None else ending_of(chunk.finish, is_cut=self._is_free)
        return [Delta(content=chunk.text, token_ids=chunk.token_ids, logprobs=chunk.logprobs, ending=ending)]


def ending_of(finish: Finish, *, has_calls: bool = False, is_cut: bool = False) -> Ending:
    """The wire's words for a finish. `is_cut`: the budget ended free text, which no constraint closed.

    Text that a constraint closed in time is complete: it says `stop`, and `budget` as the stop reason,
    because clients take `length` for broken output.
    """
    reason = finish.reason
    if reason in (StopReason.LENGTH, StopReason.CANCELLED, StopReason.DEADLINE):
        word = None if reason is StopReason.LENGTH else reason.value
        return Ending(finish_reason="length", stop_reason=word)
    if reason is StopReason.BUDGET:
        if is_cut:
            return Ending(finish_reason="length", stop_reason=None)
        name = "tool_calls" if has_calls else "stop"
        return Ending(finish_reason=name, stop_reason="budget")
    stop = finish.stop if reason in (StopReason.STOP_STRING, StopReason.STOP_TOKEN) else None
    return Ending(finish_reason="tool_calls" if has_calls else "stop", stop_reason=stop)
