"""The backend of a planning run: a real tokenizer and template, and no model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from sgrt_frontend.backend import Backend
from sgrt_frontend.call import (
    ORDINARY,
    Call,
    Chunk,
    Description,
    Message,
    Score,
    ScoreTerms,
    StopReason,
    Usage,
)
from sgrt_frontend.caller import Decide, Generated, OnChunk
from sgrt_frontend.errors import BackendError
from sgrt_frontend.expression import Value
from sgrt_frontend.gen import Gen
from sgrt_frontend.planning.oracle import Oracle
from sgrt_frontend.planning.placeholder import AnyProbability, PlannedChoice, Undecided, placeholder
from sgrt_frontend.planning.regex_width import longest_match_bytes
from sgrt_frontend.planning.units import ONCE, Bounds, Unit, UnitKind, Units
from sgrt_frontend.select import Select
from sgrt_frontend.slot import Meta, Sample
from sgrt_frontend.spelling import Spelling
from sgrt_frontend.stand_in import MARKER, marker
from sgrt_frontend.trace import CallKind
from sgrt_grammars.constraint import Choice, Regex


class PlanBackend:
    """Encodes and renders through a real backend; unknown text becomes unknown runs of tokens."""

    def __init__(self, backend: Backend, units: Units) -> None:
        self._backend = backend
        self._units = units

    def describe(self) -> Description:
        """What would run here."""
        return self._backend.describe()

    def begin_tokens(self) -> tuple[int, ...]:
        """What every prompt starts with."""
        return self._backend.begin_tokens()

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        """Token ids; -k for unknown text number k."""
        parts = MARKER.split(text)
        tokens: list[int] = []
        for index, part in enumerate(parts):
            if index % 2:
                tokens.append(-self._units.in_text(int(part)))
            elif part:
                tokens.extend(self._backend.encode(part, special=special, is_start=is_start and index == 0))
        return tuple(tokens)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens."""
        return "".join(marker(-token) if token < 0 else self._backend.decode((token,)) for token in token_ids)

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        """Token ids of a chat."""
        return self._backend.render(messages, open_assistant=open_assistant)

    def spelling(self) -> Spelling:
        """Not needed: selections are planned, not made."""
        raise BackendError("a plan makes no selections")

    def generate(self, call: Call) -> AsyncIterator[Chunk]:
        """Not needed: a plan answers through its caller."""
        raise BackendError("a plan generates nothing")

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        """Not needed: a plan answers through its caller."""
        raise BackendError("a plan scores nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """A call that a run will make. Negative numbers in `prompt` and `output` are unknown runs.

    The last unit of a generated `output` is its last token. `attempts` is how often it may run (`until`); `samples`
    how many outputs it has. `branches` are the numbers of tokens behind the prompt that are computed to score texts.
    """

    label: str
    variable: str
    kind: CallKind
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    attempts: Bounds = ONCE
    samples: int = 1
    branches: tuple[int, ...] = ()

    @property
    def kept(self) -> tuple[int, ...]:
        """The tokens whose keys and values the call leaves behind; the last one drawn has none yet."""
        return self.prompt + (self.output[:-1] if self.kind is CallKind.GENERATE else self.output)

    @property
    def has_more_outputs(self) -> bool:
        """Whether outputs beside the one that a state goes on with start from the prompt."""
        return self.samples > 1 or self.attempts.high > 1 or bool(self.branches)


class PlanCaller:
    """Answers calls with stand-ins, and writes down what would be called."""

    def __init__(self, backend: Backend, units: Units, oracle: Oracle) -> None:
        self.calls: list[PlannedCall] = []
        self._backend = backend
        self._units = units
        self._oracle = oracle

    async def generate(self, gen: Gen[Value], call: Call, on_chunk: OnChunk | None) -> Generated:
        """Stand-ins for the outputs."""
        numbers = [self._output(gen, call) for _ in range(call.sampling.n)]
        self.calls.append(
            PlannedCall(
                label=call.label,
                variable=gen.variable,
                kind=CallKind.GENERATE,
                prompt=call.prompt,
                output=_output_tokens(numbers[0]),
                attempts=Bounds(1, gen.attempts),
                samples=len(numbers),
            )
        )
        values = tuple(
            self._value(gen, number, f"{call.label}.{index}" if index else call.label)
            for index, number in enumerate(numbers)
        )
        return Generated(
            samples=tuple(self._sample(number, _output_tokens(number)) for number in numbers),
            seconds=0.0,
            values=values,
        )

    async def select(self, select: Select, call: Call, decide: Decide) -> tuple[Generated, Meta]:
        """A stand-in for the choice."""
        sizes = [len(self._backend.encode(choice)) for choice in select.choices]
        number = self._units.add(
            Unit(kind=UnitKind.GENERATED, low=min(sizes), high=max(sizes), producer=call.label)
        )
        planned = PlannedCall(
            label=call.label,
            variable=select.variable,
            kind=CallKind.SELECT,
            prompt=call.prompt,
            output=(-number,),
            branches=() if select.all_spellings else tuple(size - 1 for size in sizes if size > 1),
        )
        self.calls.append(planned)
        undecided = Undecided(list(select.choices), call.label, self._oracle)
        value = PlannedChoice(marker(number), lambda: str(undecided.reveal()))
        sample = self._sample(number, (-number,))
        meta = Meta(usage=sample.usage, samples=(sample,), probabilities=AnyProbability(select.choices))
        return Generated(samples=(sample,), seconds=0.0, values=(value,)), meta

    async def score(self, call: Call, continuations: Sequence[Sequence[int]]) -> list[Score]:
        """Zeros."""
        planned = PlannedCall(
            label=call.label, variable="score", kind=CallKind.SCORE, prompt=call.prompt, output=()
        )
        self.calls.append(planned)
        usage = Usage(prompt_tokens=len(call.prompt), cached_tokens=0, output_tokens=0)
        return [Score(logprobs=(0.0,) * len(tokens), usage=usage) for tokens in continuations]

    def _sample(self, number: int, tokens: tuple[int, ...]) -> Sample:
        usage = Usage(prompt_tokens=0, cached_tokens=0, output_tokens=0)
        return Sample(
            text=marker(number),
            token_ids=tokens,
            stop_reason=StopReason.END_OF_TEXT,
            stop=None,
            usage=usage,
        )

    def _output(self, gen: Gen[Value], call: Call) -> int:
        """Two units for the output, all but its last token and that one: a call's last token has no keys
        and values yet when the call ends. The number of the first.
        """
        sampling = call.sampling
        room = max(1, self._backend.describe().context_tokens - len(call.prompt))
        high = room if sampling.max_tokens is None else sampling.max_tokens
        low = min(high, max(sampling.min_tokens, 0 if gen.shape.constraint is None else 1))
        if sampling.ignore_eos and not sampling.stop and not sampling.stop_token_ids and sampling.max_tokens:
            low = high
        constraint = gen.shape.constraint
        if isinstance(constraint, Choice):
            sizes = [len(self._backend.encode(option)) for option in constraint.options]
            low, high = min(sizes), min(high, max(sizes))
        elif isinstance(constraint, Regex):
            longest = longest_match_bytes(constraint.pattern)
            high = high if longest is None else max(low, min(high, longest))
        kind, producer = UnitKind.GENERATED, call.label
        first = self._units.add(
            Unit(kind=kind, low=max(0, low - 1), high=max(0, high - 1), producer=producer)
        )
        self._units.add(Unit(kind=kind, low=min(1, low), high=min(1, high), producer=producer))
        return first

    def _value(self, gen: Gen[Value], number: int, key: str) -> Value:
        constraint = gen.shape.constraint
        if gen.shape.annotation is str and isinstance(constraint, Choice):
            undecided = Undecided(list(constraint.options), key, self._oracle)
            return PlannedChoice(marker(number), lambda: str(undecided.reveal()))
        return placeholder(gen.shape.annotation, marker(number), key, self._oracle)


def _output_tokens(first: int) -> tuple[int, ...]:
    """The units of an output."""
    return (-first, -(first + 1))
