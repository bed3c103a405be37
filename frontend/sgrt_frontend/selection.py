"""The probability of each choice: summed over its spellings in tokens, best first, with a bound.

A text has exponentially many spellings. All choices share one search: a node is a token sequence that
spells a beginning of some choices; its probability bounds what all spellings below it can add. The
heaviest node is opened next, until what the unopened ones could add is small beside what was found.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sgrt_frontend.call import Call, Role, SamplingParams, StopReason, Usage
from sgrt_frontend.caller import Generated, ScoreTokens
from sgrt_frontend.errors import BackendError
from sgrt_frontend.events import Done
from sgrt_frontend.generate import Place
from sgrt_frontend.rope import PieceKind, Rope
from sgrt_frontend.run import Run
from sgrt_frontend.select import Normalization, Select
from sgrt_frontend.slot import Meta, Sample, Slot
from sgrt_frontend.spelling import Spelling
from sgrt_frontend.trace import CallKind, TracedCall, failed, traced
from sgrt_grammars.constraint import Choice

# A search stops after this many opened nodes per choice even if the bound is not reached; the bound says so.
_MAX_OPENED_PER_CHOICE = 64
# Nodes opened in one round; each is one scoring call of a few tokens after a shared prefix.
_ROUND = 8
_FAR_BEHIND = math.log(1000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceWeights:
    """What a search found.

    `weights` are probabilities; `spellings` the likeliest token sequence of each choice and its
    log-probability; `unexplored` bounds the weight of spellings not summed, as a fraction of all weight.
    """

    weights: Mapping[str, float]
    spellings: Mapping[str, tuple[tuple[int, ...], float]]
    unexplored: float
    usage: Usage


@dataclass(order=True, slots=True)
class _Node:
    priority: float  # minus the log-probability: a heap gives the smallest first
    tokens: tuple[int, ...] = field(compare=False)
    size: int = field(compare=False)  # bytes spelled
    alive: tuple[int, ...] = field(compare=False)  # choices that begin with those bytes


@dataclass(slots=True)
class _Search:
    prefix: tuple[int, ...]
    targets: list[bytes]  # each choice, with its terminator
    sizes: list[int]  # bytes of each choice alone
    end_token_ids: tuple[int, ...]  # () when the choice's own end is enough, or a terminator follows
    spelling: Spelling
    score: ScoreTokens
    weights: list[float] = field(default_factory=list)
    best: list[tuple[tuple[int, ...], float] | None] = field(default_factory=list)
    frontier: list[_Node] = field(default_factory=list)
    cached_tokens: int = 0

    async def run(self, max_unexplored: float) -> float:
        count = len(self.targets)
        self.weights = [0.0] * count
        self.best = [None] * count
        self.frontier = [_Node(0.0, (), 0, tuple(range(count)))]
        opened = 0
        while self.frontier and opened < _MAX_OPENED_PER_CHOICE * count:
            if self._unexplored() <= max_unexplored:
                break
            nodes = self._heaviest()
            opened += len(nodes)
            await asyncio.gather(*(self._open(node) for node in nodes))
        return self._unexplored()

    def _heaviest(self) -> list[_Node]:
        """The nodes to open together: the heaviest, and those not far behind it."""
        nodes = [heapq.heappop(self.frontier)]
        light = nodes[0].priority + _FAR_BEHIND
        while self.frontier and len(nodes) < _ROUND and self.frontier[0].priority <= light:
            nodes.append(heapq.heappop(self.frontier))
        return nodes

    def _unexplored(self) -> float:
        rest = sum(math.exp(-node.priority) for node in self.frontier)
        total = sum(self.weights) + rest
        return rest / total if total > 0 else 0.0

    async def _open(self, node: _Node) -> None:
        """Score every token that goes on spelling some choice, and the end tokens after a whole one."""
        nexts = self._next_tokens(node)
        ends = self._whole(node) if self.end_token_ids else []
        tokens = [*nexts, *(self.end_token_ids if ends else ())]
        if not tokens:
            return
        scores = await self.score((*self.prefix, *node.tokens), [(token,) for token in tokens])
        if len(scores) != len(tokens):
            raise BackendError(f"the backend scored {len(scores)} of {len(tokens)} continuations")
        if not node.tokens:  # later nodes go on from the same prompt, which counts once
            self.cached_tokens = scores[0].usage.cached_tokens
        for token, score in zip(tokens[: len(nexts)], scores, strict=False):
            self._advance(node, token, node.priority - score.total, nexts[token])
        end_probability = sum(math.exp(score.total) for score in scores[len(nexts) :])
        for choice in ends:
            self._found(choice, node.tokens, math.exp(-node.priority) * end_probability, -node.priority)

    def _next_tokens(self, node: _Node) -> dict[int, int]:
        """Tokens to score, with the number of bytes each spells."""
        found: dict[int, int] = {}
        for choice in node.alive:
            rest = self.targets[choice][node.size :]
            found.update(self.spelling.beginnings(rest))
            if rest and len(self.targets[choice]) > self.sizes[choice]:
                found.update(
                    (token, len(self.spelling.bytes_of((token,)))) for token in self.spelling.longer(rest)
                )
        return found

    def _advance(self, node: _Node, token: int, priority: float, size: int) -> None:
        if math.isinf(priority):
            return
        spelled = self.spelling.bytes_of((token,))
        alive: list[int] = []
        for choice in node.alive:
            rest = self.targets[choice][node.size :]
            if rest and (rest.startswith(spelled) or self._may_overshoot(choice, rest, spelled)):
                alive.append(choice)
        if not alive:
            return
        tokens = (*node.tokens, token)
        open_choices: list[int] = []
        for choice in alive:
            is_whole = node.size + size >= len(self.targets[choice])
            if is_whole and not self.end_token_ids:
                self._found(choice, tokens, math.exp(-priority), -priority)
            elif is_whole or node.size + size < len(self.targets[choice]):
                open_choices.append(choice)
        if open_choices:
            heapq.heappush(self.frontier, _Node(priority, tokens, node.size + size, tuple(open_choices)))

    def _may_overshoot(self, choice: int, rest: bytes, spelled: bytes) -> bool:
        return len(self.targets[choice]) > self.sizes[choice] and spelled.startswith(rest)

    def _whole(self, node: _Node) -> list[int]:
        return [choice for choice in node.alive if node.size == len(self.targets[choice])]

    def _found(self, choice: int, tokens: tuple[int, ...], weight: float, logprob: float) -> None:
        self.weights[choice] += weight
        best = self.best[choice]
        if best is None or logprob > best[1]:
            self.best[choice] = (tokens, logprob)


async def weigh(
    prefix: tuple[int, ...],
    choices: Sequence[str],
    *,
    terminator: str,
    end_token_ids: tuple[int, ...],
    spelling: Spelling,
    score: ScoreTokens,
    max_unexplored: float,
) -> ChoiceWeights:
    """The weight of each choice after `prefix`.

    The event counted is: the text goes on with the choice, then `terminator` if there is one, else
    one of `end_token_ids` if there are any, else whatever the model likes (the choice ends at a token border).
    """
    texts = [choice.encode() for choice in choices]
    search = _Search(
        prefix=prefix,
        targets=[text + terminator.encode() for text in texts],
        sizes=[len(text) for text in texts],
        end_token_ids=() if terminator else end_token_ids,
        spelling=spelling,
        score=score,
    )
    unexplored = await search.run(max_unexplored)
    spellings = {choice: best for choice, best in zip(choices, search.best, strict=True) if best is not None}
    return ChoiceWeights(
        weights=dict(zip(choices, search.weights, strict=True)),
        spellings=spellings,
        unexplored=unexplored,
        usage=Usage(prompt_tokens=len(prefix), cached_tokens=search.cached_tokens, output_tokens=0),
    )


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
