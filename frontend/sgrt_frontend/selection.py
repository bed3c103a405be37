"""Running a `select`: weights of the choices, one of them taken, and the tokens the state goes on with."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sgrt_frontend.call import Call, Role, SamplingParams, StopReason, Usage
from sgrt_frontend.caller import Generated
from sgrt_frontend.choice_search import ChoiceWeights, ScoreTokens, weigh
from sgrt_frontend.events import Done
from sgrt_frontend.generate import Place
from sgrt_frontend.rope import PieceKind, Rope
from sgrt_frontend.run import Run
from sgrt_frontend.select import Normalization, Select
from sgrt_frontend.slot import Meta, Sample, Slot
from sgrt_frontend.trace import CallKind, TracedCall, failed, traced
from sgrt_grammars.constraint import Choice


async def weigh_one_spelling(
    prefix: tuple[int, ...],
    spellings: Mapping[str, tuple[int, ...]],
    *,
    endings: Sequence[tuple[int, ...]],
    score: ScoreTokens,
) -> ChoiceWeights:
    """The weight of one spelling of each choice, followed by one of `endings`, in a single scoring call.

    What other spellings would add is not known, so `unexplored` is 1.
    """
    texts = [(choice, ending) for choice in spellings for ending in endings]
    scores = await score(prefix, [spellings[choice] + ending for choice, ending in texts])
    weights = dict.fromkeys(spellings, 0.0)
    likeliest: dict[str, tuple[tuple[int, ...], float]] = {}
    for (choice, _), scored in zip(texts, scores, strict=True):
        weights[choice] += math.exp(scored.total)
        spelled = spellings[choice]
        likeliest[choice] = (spelled, sum(scored.logprobs[: len(spelled)]))
    cached = min((scored.usage.cached_tokens for scored in scores), default=0)
    usage = Usage(prompt_tokens=len(prefix), cached_tokens=min(cached, len(prefix)), output_tokens=0)
    return ChoiceWeights(weights=weights, spellings=likeliest, unexplored=1.0, usage=usage)


def probabilities(found: ChoiceWeights, normalization: Normalization) -> dict[str, float]:
    """The weights, normalized to sum to 1; equal shares when the model gives no choice any weight."""
    if normalization is Normalization.TOKEN_LENGTH:
        weights = {
            choice: math.exp(found.spellings[choice][1] / max(1, len(found.spellings[choice][0])))
            if choice in found.spellings
            else 0.0
            for choice in found.weights
        }
    else:
        weights = dict(found.weights)
    total = sum(weights.values())
    if total <= 0 and found.spellings:  # too small for a float: the likeliest spellings tell them apart
        likeliest = max(logprob for _, logprob in found.spellings.values())
        weights = {
            choice: math.exp(found.spellings[choice][1] - likeliest) if choice in found.spellings else 0.0
            for choice in weights
        }
        total = sum(weights.values())
    if total <= 0:
        return {choice: 1 / len(weights) for choice in weights}
    return {choice: weight / total for choice, weight in weights.items()}


def draw(shares: Mapping[str, float], temperature: float, seed: int) -> str:
    """The heaviest choice (the first of equals), or one drawn at a temperature."""
    choices = list(shares)
    if temperature == 0:
        return max(choices, key=shares.__getitem__)
    heaviest = max(shares.values())
    powers = [(shares[choice] / heaviest) ** (1 / temperature) for choice in choices]
    return random.Random(seed).choices(choices, weights=powers)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One `select` on its way: the job that continues a rope."""

    run: Run
    select: Select
    slot: Slot
    place: Place

    async def extend(self, before: Rope) -> Rope:
        """Weigh the choices after `before`, set the variable, return the rope with the choice appended."""
        encoder = self.run.encoder
        before = encoder.begun(before)
        outlook = self.run.outlook
        call = Call(
            prompt=before.flat(),
            sampling=SamplingParams(seed=self._seed(), temperature=self.select.temperature),
            constraint=Choice(options=self.select.choices),
            priority=self.run.options.priority,
            cache_salt=self.run.options.cache_salt,
            label=self.place.label,
            plan=None if outlook is None else outlook.call_plan(self.place.label, before),
        )
        generated, meta = await self._selected(call, before)
        sample = generated.samples[0]
        place = self.place
        after = before.extend(
            sample.token_ids, sample.text, turn=place.turn, role=place.role, kind=PieceKind.GENERATED
        )
        self.run.add_usage(meta.usage)
        self.slot.succeed(generated.values[0] if generated.values else sample.text, meta)
        if self.run.listener is not None:
            done = Done(variable=self.select.variable, label=self.place.label, value=sample.text, meta=meta)
            self.run.listener(done)
        return after

    async def _selected(self, call: Call, before: Rope) -> tuple[Generated, Meta]:
        """The selection, traced."""
        trace = self.run.trace
        started = trace.now()

        def record() -> TracedCall:
            return traced(
                CallKind.SELECT,
                call,
                variable=self.select.variable,
                source=self.slot.source,
                before=before,
                started_s=started,
                now_s=trace.now(),
            )

        try:
            generated, meta = await self.run.caller.select(self.select, call, self._decide)
        except BaseException as error:
            trace.add(failed(record(), error))
            raise
        trace.add(
            replace(
                record(),
                samples=generated.samples,
                probabilities=meta.probabilities,
                unexplored=meta.unexplored,
            )
        )
        return generated, meta

    async def _decide(self, call: Call, score: ScoreTokens) -> tuple[Generated, Meta]:
        encoder = self.run.encoder
        await encoder.beside_loop(self._look_up)
        ends = () if self._is_open_ended else tuple(sorted(encoder.end_token_ids))
        terminator = self.select.terminator
        if self.select.all_spellings:
            found = await weigh(
                call.prompt,
                self.select.choices,
                terminator=terminator,
                end_token_ids=ends,
                spelling=encoder.backend.spelling(),
                score=score,
                max_unexplored=self.select.max_unexplored,
                encode=lambda text: encoder.beside_loop(encoder.encode, text),
            )
        else:
            spelled = {choice: encoder.encode(choice + terminator) for choice in self.select.choices}
            endings = [(token,) for token in ends] if ends and not terminator else [()]
            found = await weigh_one_spelling(call.prompt, spelled, endings=endings, score=score)
        shares = probabilities(found, self.select.normalization)
        assert call.sampling.seed is not None, "set when the call was made"
        chosen = draw(shares, self.select.temperature, call.sampling.seed)
        tokens = self._tokens(chosen, found)
        usage = found.usage
        sample = Sample(
            text=chosen, token_ids=tokens, stop_reason=StopReason.END_OF_TEXT, stop=None, usage=usage
        )
        meta = Meta(usage=usage, samples=(sample,), probabilities=shares, unexplored=found.unexplored)
        return Generated(samples=(sample,), seconds=0.0), meta

    def _look_up(self) -> None:
        """Have the encoder remember what the decision asks for first."""
        for choice in self.select.choices:
            self.run.encoder.encode(choice)
            self.run.encoder.encode(choice + self.select.terminator)
        if self.select.all_spellings:
            self.run.encoder.backend.spelling()

    def _tokens(self, chosen: str, found: ChoiceWeights) -> tuple[int, ...]:
        """The likeliest spelling; with a terminator, tokens may run past the choice, so it is encoded."""
        if self.select.terminator or chosen not in found.spellings:
            return self.run.encoder.encode(chosen)
        return found.spellings[chosen][0]

    @property
    def _is_open_ended(self) -> bool:
        if self.select.open_ended is not None:
            return self.select.open_ended
        return self.place.role is not Role.ASSISTANT

    def _seed(self) -> int:
        return self.run.seed_of(self.place.label) if self.select.seed is None else self.select.seed
