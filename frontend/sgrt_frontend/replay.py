"""Replaying a program against its trace, without a model, up to the first divergence."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from sgrt_frontend.call import (
    ORDINARY,
    Call,
    Chunk,
    Description,
    Finish,
    Message,
    SamplingParams,
    Score,
    ScoreTerms,
)
from sgrt_frontend.caller import Decide, Generated, OnChunk
from sgrt_frontend.encoder import Encoder
from sgrt_frontend.errors import BackendError, SgrtError
from sgrt_frontend.execution import Body, execute, open_run
from sgrt_frontend.expression import Value
from sgrt_frontend.gen import Gen
from sgrt_frontend.loop import LoopThread
from sgrt_frontend.memo import Memo
from sgrt_frontend.options import RunOptions
from sgrt_frontend.program import Program
from sgrt_frontend.rope import Rope
from sgrt_frontend.select import Select
from sgrt_frontend.slot import Meta
from sgrt_frontend.spelling import Spelling
from sgrt_frontend.state import State
from sgrt_frontend.trace import CallKind, Trace, TracedCall


class Divergence(SgrtError):
    """The program does something else than its trace. `label` names the call, `position` the first token that differs."""

    def __init__(self, message: str, *, label: str, variable: str, position: int) -> None:
        super().__init__(message)
        self.label = label
        self.variable = variable
        self.position = position


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The outcome: the finished state if the program got there, and the first divergence if there is one."""

    calls: int
    divergence: Divergence | None
    state: State[Any]


def replay(program: Program[..., Any], trace: Trace, *args: object, **kwargs: object) -> Replay:
    """Run a program with the answers of a trace; without arguments, with those of the trace.

    The run has the trace's seed. Calls are matched by their place in the program; a call whose prompt,
    sampling or constraint differs, that is not in the trace, or that is missing is a divergence. An error other than
    a divergence that the trace does not have is raised.
    """
    is_same = not args and not kwargs
    body = program._unbound_body(*trace.arguments) if is_same else program._body_with(args, kwargs)
    caller = _TraceCaller(trace)
    with LoopThread() as thread:
        return thread.call(_replayed(body, program._options, trace, caller))


async def _replayed(body: Body, options: RunOptions, trace: Trace, caller: _TraceCaller) -> Replay:
    backend = _TraceBackend(trace.memo, caller)
    options = replace(options, seed=trace.seed, timeout_s=None)
    run, state = open_run(body, options, backend, encoder=Encoder(backend), caller=caller)
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="sgrt-body") as pool:
            await execute(run, body, state, pool)
    except Exception:
        if caller.first is None and not any(call.error for call in trace.calls):
            raise
    divergence = caller.first or caller.missing()
    return Replay(calls=caller.answered, divergence=divergence, state=state)


class _TraceCaller:
    """Answers calls from a trace, and keeps the first divergence."""

    def __init__(self, trace: Trace) -> None:
        self._waiting: dict[str, list[TracedCall]] = {}
        for call in trace.ordered():
            self._waiting.setdefault(call.label, []).append(call)
        self.answered = 0
        self.first: Divergence | None = None
        self._unknown: list[str] = []

    async def generate(self, gen: Gen[Value], call: Call, on_chunk: OnChunk | None) -> Generated:
        """The recorded outputs."""
        recorded = self._matched(call, CallKind.GENERATE)
        if on_chunk is not None:
            for index, sample in enumerate(recorded.samples):
                finish = Finish(reason=sample.stop_reason, usage=sample.usage, stop=sample.stop)
                on_chunk(Chunk(index=index, token_ids=sample.token_ids, text=sample.text, finish=finish))
        return Generated(samples=recorded.samples, seconds=recorded.seconds)

    async def select(self, select: Select, call: Call, decide: Decide) -> tuple[Generated, Meta]:
        """The recorded choice."""
        recorded = self._matched(call, CallKind.SELECT)
        meta = Meta(
            usage=recorded.samples[0].usage,
            samples=recorded.samples,
            seconds=recorded.seconds,
            probabilities=recorded.probabilities,
            unexplored=recorded.unexplored,
        )
        return Generated(samples=recorded.samples, seconds=recorded.seconds), meta

    async def score(self, call: Call, continuations: Sequence[Sequence[int]]) -> list[Score]:
        """The recorded scores."""
        recorded = self._matched(call, CallKind.SCORE)
        if recorded.continuations != tuple(map(tuple, continuations)):
            raise self._diverged(recorded.label, recorded.variable, 0, "other continuations are scored")
        return list(recorded.scores)

    def missing(self) -> Divergence | None:
        """A recorded call that the program never made."""
        left = [call for calls in self._waiting.values() for call in calls]
        if not left:
            return None
        call = min(left, key=lambda call: call.started_s)
        return self._diverged(
            call.label,
            call.variable,
            0,
            f"the trace has this call (made at {call.source}), the program did not make it",
        )

    def _matched(self, call: Call, kind: CallKind) -> TracedCall:
        waiting = self._waiting.get(call.label)
        if not waiting:
            raise self._diverged(call.label, "", 0, "the trace has no such call")
        recorded = waiting.pop(0)
        if not waiting:
            del self._waiting[call.label]
        problem, position = self._difference(call, kind, recorded)
        if problem:
            raise self._diverged(recorded.label, recorded.variable, position, problem)
        if recorded.error:
            raise BackendError(f"recorded failure: {recorded.error}")
        self.answered += 1
        return recorded

    def unknown_constant(self, text: str) -> tuple[int, ...]:
        """A token that stands for a constant of which the trace has no encoding: no real id is negative."""
        self._unknown.append(text)
        return (-len(self._unknown),)

    def diverged(self, what: str) -> Divergence:
        """Something that is not a call and that the recorded run never had."""
        return self._diverged("", "", 0, f"{what} not in the recorded run")

    def _difference(self, call: Call, kind: CallKind, recorded: TracedCall) -> tuple[str, int]:
        if kind is not recorded.kind:
            return f"it is a {kind.value} call now and was a {recorded.kind.value} call", 0
        if call.prompt != recorded.prompt:
            return self._prompt_difference(call, recorded)
        if call.sampling != recorded.sampling and kind is not CallKind.SCORE:
            return f"other sampling: {_changes(recorded.sampling, call.sampling)}", len(call.prompt)
        constraint = "" if call.constraint is None else repr(call.constraint)
        if constraint != recorded.constraint:
            change = f"{constraint or 'none'} instead of {recorded.constraint or 'none'}"
            return f"another constraint: {change}", len(call.prompt)
        return "", 0

    def _prompt_difference(self, call: Call, recorded: TracedCall) -> tuple[str, int]:
        position = common_prefix(call.prompt, recorded.prompt)
        before = text_at(recorded.before, position)
        token = call.prompt[position] if position < len(call.prompt) else 0
        if token >= 0:
            return (
                f"the prompt differs from token {position} on, where the trace has {before[:60]!r}",
                position,
            )
        now = self._unknown[-token - 1]
        start = max(0, common_prefix(tuple(map(ord, before)), tuple(map(ord, now))) - 20)
        shown, recorded_text = now[start : start + 60], before[start : start + 60]
        return (
            f"the prompt differs from token {position} on: {shown!r}, where the trace has {recorded_text!r}",
            position,
        )

    def _diverged(self, label: str, variable: str, position: int, problem: str) -> Divergence:
        where = f"call {label} ({variable!r}): " if label else ""
        divergence = Divergence(where + problem, label=label, variable=variable, position=position)
        self.first = self.first or divergence
        return divergence


def _changes(before: SamplingParams, after: SamplingParams) -> str:
    names = SamplingParams.__dataclass_fields__
    return ", ".join(
        f"{name} {getattr(before, name)!r} -> {getattr(after, name)!r}"
        for name in names
        if getattr(before, name) != getattr(after, name)
    )


def common_prefix(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """How many tokens two sequences share from the beginning."""
    low, high = 0, min(len(left), len(right))
    while low < high:  # slices compare fast, so a binary search beats a walk
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def text_at(rope: Rope, position: int) -> str:
    """The text of the part that holds a token."""
    start = 0
    for piece in rope.pieces():
        if start + len(piece.tokens) > position:
            return piece.text
        start += len(piece.tokens)
    return ""


class _TraceBackend:
    """The recorded results of a backend's pure functions; nothing else is asked of it."""

    def __init__(self, memo: Memo, caller: _TraceCaller) -> None:
        self._memo = memo
        self._caller = caller

    def describe(self) -> Description:
        return self._memo.description

    def begin_tokens(self) -> tuple[int, ...]:
        return self._memo.begin_tokens

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        tokens = self._memo.encoded.get((text, special, is_start))
        if tokens is None:
            return self._caller.unknown_constant(text)
        return tokens

    def decode(self, token_ids: Sequence[int]) -> str:
        text = self._memo.decoded.get(tuple(token_ids))
        if text is None:
            raise self._caller.diverged(f"the text of tokens {tuple(token_ids)[:8]} is")
        return text

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        tokens = self._memo.rendered.get((tuple(messages), open_assistant))
        if tokens is None:
            roles = ", ".join(message.role.value for message in messages)
            raise self._caller.diverged(f"turns ({roles}) are")
        return tokens

    def spelling(self) -> Spelling:
        raise BackendError("a trace has no vocabulary; selections are replayed, not made")

    def generate(self, call: Call) -> AsyncIterator[Chunk]:
        raise BackendError("a trace answers through its caller")

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        raise BackendError("a trace answers through its caller")
