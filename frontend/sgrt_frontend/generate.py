"""Running a `gen`: prompt, call, attempts, value, and the tokens the state goes on with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sgrt_frontend.call import Call, Chunk, Role, StopReason, Usage
from sgrt_frontend.caller import Generated
from sgrt_frontend.encoder import Encoder, is_start
from sgrt_frontend.errors import InvalidRequest, SgrtError
from sgrt_frontend.events import Delta, Done, Partial
from sgrt_frontend.gen import Gen
from sgrt_frontend.partial_json import PartialJson
from sgrt_frontend.rope import PieceKind, Rope
from sgrt_frontend.run import Run
from sgrt_frontend.sampling import SamplingOptions, sampling_params
from sgrt_frontend.slot import Meta, Sample, Slot
from sgrt_frontend.totals import NOTHING_USED, added
from sgrt_frontend.trace import CallKind, TracedCall, failed, traced
from sgrt_frontend.types.partial import partial_value
from sgrt_frontend.types.shape import ValueMismatch
from sgrt_grammars.constraint import AnyText, Sequence, Text


class NotAccepted(SgrtError):
    """No attempt gave a value that `until` accepts; `last` is the last one."""

    def __init__(self, message: str, *, last: object) -> None:
        super().__init__(message)
        self.last = last


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a call stands: its label, and the chat turn around it."""

    label: str
    turn: int = 0
    role: Role | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One `gen` on its way: the job that continues a rope."""

    run: Run
    gen: Gen[Any]
    slot: Slot
    place: Place

    async def extend(self, before: Rope) -> Rope:
        """Run the call after `before`, set the variable, return the rope to go on with."""
        encoder = self.run.encoder
        before, healed = await encoder.beside_loop(_heal, before, encoder) if self.gen.heal else (before, "")
        before = encoder.begun(before)
        own = await encoder.beside_loop(self._marked_stops) if self.gen.stop_marks else self.gen.sampling
        call = self._call(before, healed, own)
        total = NOTHING_USED
        seconds = 0.0
        refusal: Exception | None = None
        for attempt in range(self.gen.attempts):
            seeded = replace(call, sampling=replace(call.sampling, seed=self._seed(attempt)))
            generated = await self._generated(seeded, before, healed)
            total = added(total, _call_usage(generated))
            seconds += generated.seconds
            value, refusal = self._value(generated, healed)
            if refusal is None:
                meta = Meta(usage=total, samples=generated.samples, attempts=attempt + 1, seconds=seconds)
                return await self._finished(before, value, meta)
        assert refusal is not None, "at least one attempt was made"
        raise refusal

    async def _generated(self, call: Call, before: Rope, healed: str) -> Generated:
        """One attempt, traced."""
        trace = self.run.trace
        started = trace.now()
        try:
            generated = await self.run.caller.generate(self.gen, call, self._on_chunk(healed))
        except BaseException as error:
            trace.add(failed(self._record(call, before, started), error))
            raise
        trace.add(replace(self._record(call, before, started), samples=generated.samples))
        return generated

    def _record(self, call: Call, before: Rope, started: float) -> TracedCall:
        return traced(
            CallKind.GENERATE,
            call,
            variable=self.gen.variable,
            source=self.slot.source,
            before=before,
            started_s=started,
            now_s=self.run.trace.now(),
        )

    async def _finished(self, before: Rope, value: object, meta: Meta) -> Rope:
        first = meta.samples[0]
        text = self.gen.shape.visible(first.text)
        encoder = self.run.encoder
        tokens = await encoder.beside_loop(kept_tokens, first, encoder, visible=text)
        place = self.place
        after = before.extend(tokens, text, turn=place.turn, role=place.role, kind=PieceKind.GENERATED)
        self.run.add_usage(meta.usage)
        self.slot.succeed(value, meta)
        if self.run.listener is not None:
            done = Done(variable=self.gen.variable, label=self.place.label, value=value, meta=meta)
            self.run.listener(done)
        return after

    def _call(self, before: Rope, healed: str, own: SamplingOptions) -> Call:
        options = self.run.options
        constraint = self.gen.shape.constraint
        if healed:
            constraint = Sequence(parts=(Text(text=healed), constraint or AnyText()))
        defaults = options.sampling if constraint is None else _without_stops(options.sampling)
        sampling = sampling_params(defaults, own, n=max(1, self.gen.samples))
        if self.gen.attempts > 1 and sampling.temperature == 0:
            raise InvalidRequest(
                "temperature: until(...) draws again, but at temperature 0 every attempt is the same; set one above 0",
                param="temperature",
            )
        outlook = self.run.outlook if not healed else None
        return Call(
            prompt=before.flat(),
            sampling=sampling,
            constraint=constraint,
            priority=self.gen.priority or options.priority,
            deadline_s=self.gen.timeout_s,
            cache_salt=options.cache_salt,
            label=self.place.label,
            plan=None if outlook is None else outlook.call_plan(self.place.label, before),
        )

    def _marked_stops(self) -> SamplingOptions:
        """The generation's own sampling, with stop marks as the tokens or texts they are in this model."""
        sampling = self.gen.sampling.copy()
        for text in self.gen.stop_marks:
            tokens = self.run.encoder.encode(text, is_special=True)
            if len(tokens) == 1:
                sampling["stop_token_ids"] = (*sampling.get("stop_token_ids", ()), tokens[0])
            else:
                stop = sampling.get("stop", ())
                sampling["stop"] = (*((stop,) if isinstance(stop, str) else stop), text)
        return sampling

    def _seed(self, attempt: int) -> int:
        own = self.gen.sampling.get("seed")
        if own is None:
            return self.run.seed_of(self.place.label, attempt)
        return (own + attempt) % 2**63

    def _value(self, generated: Generated, healed: str) -> tuple[object, Exception | None]:
        if generated.values:
            return (list(generated.values) if self.gen.samples else generated.values[0]), None
        samples = generated.samples
        try:
            shape = self.gen.shape
            values = [shape.parse(shape.visible(sample.text.removeprefix(healed))) for sample in samples]
        except ValueMismatch as error:
            return None, error
        value: object = values if self.gen.samples else values[0]
        accept = self.gen.accept
        if accept is None or accept(value):
            return value, None
        attempts = self.gen.attempts
        return None, NotAccepted(
            f"none of {attempts} attempts was accepted; the last gave {value!r}", last=value
        )

    def _on_chunk(self, healed: str) -> Callable[[Chunk], None] | None:
        if self.run.listener is None:
            return None
        return _Announcer(self, healed).take


class _Announcer:
    """Turns chunks into events, with the partial value of JSON."""

    def __init__(self, generation: Generation, healed: str) -> None:
        self._generation = generation
        self._to_skip = [len(healed)] * max(1, generation.gen.samples)
        self._texts = [""] * len(self._to_skip)
        self._parsers = [PartialJson() for _ in self._to_skip] if generation.gen.shape.is_json else []

    def take(self, chunk: Chunk) -> None:
        generation = self._generation
        listener = generation.run.listener
        assert listener is not None, "made only for a run that listens"
        skipped = min(self._to_skip[chunk.index], len(chunk.text))
        self._to_skip[chunk.index] -= skipped
        text = self._shown(chunk.index, chunk.text[skipped:])
        name, label = generation.gen.variable, generation.place.label
        if not text and not chunk.token_ids:
            return
        listener(Delta(variable=name, label=label, text=text, token_ids=chunk.token_ids, sample=chunk.index))
        if self._parsers and text and self._parsers[chunk.index].feed(text):
            data = self._parsers[chunk.index].value
            value = partial_value(generation.gen.shape.annotation, data)
            listener(Partial(variable=name, label=label, data=data, value=value, sample=chunk.index))

    def _shown(self, index: int, text: str) -> str:
        """The new text without the character that may follow a value."""
        shape = self._generation.gen.shape
        if not shape.after:
            return text
        before = self._texts[index]
        self._texts[index] += text
        return shape.visible(self._texts[index])[len(shape.visible(before)) :]


def _without_stops(sampling: SamplingOptions) -> SamplingOptions:
    """Defaults for a constrained call: default stops are meant for free text."""
    kept = sampling.copy()
    kept.pop("stop", None)
    kept.pop("stop_token_ids", None)
    return kept


def kept_tokens(sample: Sample, encoder: Encoder, *, visible: str | None = None) -> tuple[int, ...]:
    """The tokens a state goes on with: those of the sample's visible text, as they were generated.

    An end or stop token is left out: the program says what follows. Where a stop string was cut off
    inside a token, what is left of that token is encoded anew; everything before it stays.
    """
    tokens = sample.token_ids
    if sample.stop_reason is StopReason.END_OF_TEXT:
        while tokens and tokens[-1] in encoder.end_token_ids:
            tokens = tokens[:-1]
    elif sample.stop_reason is StopReason.STOP_TOKEN and tokens and tokens[-1] == sample.stop:
        tokens = tokens[:-1]
    text = sample.text if visible is None else visible
    if sample.stop_reason is not StopReason.STOP_STRING and text == sample.text:
        return tokens
    decode = encoder.backend.decode
    for count in range(len(tokens), -1, -1):
        spelled = decode(tokens[:count])
        if text.startswith(spelled):
            return tokens[:count] + encoder.encode(text[len(spelled) :])
    raise AssertionError("no tokens spell the empty text, which every text starts with")


def _heal(before: Rope, encoder: Encoder) -> tuple[Rope, str]:
    """Take the last tokens of a constant back: the rope without them, and the text they spelled."""
    parent = before.parent
    if parent is None or before.kind is not PieceKind.CONSTANT:
        return before, ""
    if encoder.encode(before.text, is_start=is_start(parent)) != before.tokens or len(before.tokens) < 2:
        return before, ""
    lead = encoder.backend.decode(before.tokens).removesuffix(
        before.text
    )  # a space that models put at the start
    for count in range(len(before.tokens) - 1, 0, -1):
        spelled = encoder.backend.decode(before.tokens[:count])
        kept = spelled.removeprefix(lead)
        if spelled.startswith(lead) and before.text.startswith(kept):
            rope = parent.extend(before.tokens[:count], kept, turn=before.turn, role=before.role)
            return rope, before.text[len(kept) :]
    return before, ""


def _call_usage(generated: Generated) -> Usage:
    """The usage of one call; its samples share the prompt, which counts once."""
    usages = [sample.usage for sample in generated.samples]
    return Usage(
        prompt_tokens=max(usage.prompt_tokens for usage in usages),
        cached_tokens=min(usage.cached_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        forced_tokens=sum(usage.forced_tokens for usage in usages),
    )
