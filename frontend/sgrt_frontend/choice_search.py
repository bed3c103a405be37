"""The probability of each choice: summed over its spellings in tokens, best first, with a bound.

A text has exponentially many spellings. All choices share one search: a node is a token sequence that spells a beginning
of some choices; its probability bounds what all spellings below it can add. To open a node, the usual spelling of what is
left of each choice may be scored at once: it ends in whole choices, and its rows of logits give every other way to go on,
which are the next nodes. Those that promise most are opened next, until what the unopened ones could add is small beside
what was found.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sgrt_frontend.call import Score, Usage
from sgrt_frontend.errors import BackendError
from sgrt_frontend.spelling import Spelling

ScoreTokens = Callable[[Sequence[int], Sequence[Sequence[int]]], Awaitable[list[Score]]]
Tokens = tuple[int, ...]

# A search stops after this many opened nodes per choice even if the bound is not reached; the bound says so.
_MAX_OPENED_PER_CHOICE = 64
# Nodes opened in one round; each is a scoring call of a few tokens after a shared prefix.
_ROUND = 8
_FAR_BEHIND = math.log(1000.0)
# Choices that are less likely than this together have no bound worth having: every node near the beginning is likelier than
# they are, whatever follows it. The search then ends when little more is expected there, or after fewer nodes.
_UNBOUNDABLE = 1e-14
_MAX_EXPECTED = 1e-2
_MAX_UNBOUNDABLE_PER_CHOICE = 3
_MAX_CONTINUATIONS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceWeights:
    """What a search found.

    `weights` are probabilities; `spellings` the likeliest token sequence of each choice and its
    log-probability; `unexplored` bounds the weight of spellings not summed, as a fraction of all weight.
    """

    weights: Mapping[str, float]
    spellings: Mapping[str, tuple[Tokens, float]]
    unexplored: float
    usage: Usage


@dataclass(order=True, slots=True)
class _Node:
    priority: (
        float  # minus the log-probability that is expected of its choices: a heap gives the smallest first
    )
    logprob: float = field(compare=False)
    tokens: Tokens = field(compare=False)
    size: int = field(compare=False)  # bytes spelled
    alive: tuple[int, ...] = field(compare=False)  # choices that begin with those bytes


@dataclass(slots=True)
class _Row:
    """A place on the way from a node: what may follow there."""

    size: int
    alive: tuple[int, ...]
    nexts: dict[int, int]  # tokens that go on spelling a choice -> bytes
    whole: list[int]  # choices that may end here


@dataclass(slots=True)
class _Search:
    prefix: Tokens
    targets: list[bytes]  # each choice, with its terminator
    sizes: list[int]  # bytes of each choice alone
    end_token_ids: Tokens  # () when the choice's own end is enough, or a terminator follows
    spelling: Spelling
    encode: Callable[[str], Awaitable[Tokens]] | None
    score: ScoreTokens
    weights: list[float] = field(default_factory=list)
    best: list[tuple[Tokens, float] | None] = field(default_factory=list)
    frontier: list[_Node] = field(default_factory=list)
    rest: list[dict[int, float]] = field(default_factory=list)  # by choice: see `_learn`
    usual: dict[tuple[int, int], Tokens] = field(default_factory=dict)  # by choice and position
    cached_tokens: int | None = None
    is_bounded: bool = False  # choices are likely enough for a bound

    async def run(self, max_unexplored: float) -> float:
        count = len(self.targets)
        self.weights = [0.0] * count
        self.best = [None] * count
        self.rest = [{} for _ in range(count)]
        self.frontier = [_Node(0.0, 0.0, (), 0, tuple(range(count)))]
        opened = 0
        while self.frontier and opened < _MAX_OPENED_PER_CHOICE * count:
            if self._unexplored() <= max_unexplored or self._is_enough(opened):
                break
            nodes = self._heaviest(max_unexplored)
            opened += len(nodes)
            await asyncio.gather(*map(self._open, nodes))
            if opened == 1 and sum(self.weights) > _UNBOUNDABLE:
                self._go_by_the_bound()
        return self._unexplored()

    def _go_by_the_bound(self) -> None:
        """From here on the nodes that weigh most in the bound go first."""
        self.is_bounded = True
        for node in self.frontier:
            node.priority = -node.logprob
        heapq.heapify(self.frontier)

    def _heaviest(self, max_unexplored: float) -> list[_Node]:
        """The nodes to open together: those not far behind the first, and no more than the bound may need."""
        rest = sum(math.exp(node.logprob) for node in self.frontier)
        enough = max_unexplored * (sum(self.weights) + rest) if self.is_bounded else 0.0
        nodes = [heapq.heappop(self.frontier)]
        light = nodes[0].priority + _FAR_BEHIND
        while self.frontier and len(nodes) < _ROUND and self.frontier[0].priority <= light:
            rest -= math.exp(nodes[-1].logprob)
            if rest <= enough:
                break
            nodes.append(heapq.heappop(self.frontier))
        return nodes

    def _unexplored(self) -> float:
        rest = sum(math.exp(node.logprob) for node in self.frontier)
        total = sum(self.weights) + rest
        return rest / total if total > 0 else 0.0

    def _is_enough(self, opened: int) -> bool:
        """For choices too unlikely to be bounded: whether little more is to be expected, or enough was looked at."""
        if self.is_bounded or any(best is None for best in self.best):
            return False
        likeliest = max(best[1] for best in self.best if best is not None)
        expected = sum(math.exp(-node.priority - likeliest) for node in self.frontier)
        return expected <= _MAX_EXPECTED or opened >= _MAX_UNBOUNDABLE_PER_CHOICE * len(self.targets)

    # -- opening nodes -----------------------------------------------------------------------------

    async def _open(self, node: _Node) -> None:
        rows: dict[Tokens, _Row] = {}
        for choice in node.alive:
            if (choice, node.size) not in self.usual:
                self.usual[choice, node.size] = await self._spelled(choice, node.size)
        for choice in node.alive:
            self._lay_out(node, choice, rows)
        texts = [
            (*tokens, token)
            for tokens, row in rows.items()
            for token in (*row.nexts, *(self.end_token_ids if row.whole else ()))
        ]
        logprobs = {node.tokens: node.logprob}
        for text, total in zip(texts, await self._totals(node, texts), strict=True):
            logprobs[text] = total
        for tokens, row in rows.items():
            self._take_row(tokens, row, rows, logprobs)
        for choice in node.alive:
            self._learn(node, choice, rows, logprobs)

    def _lay_out(self, node: _Node, choice: int, rows: dict[Tokens, _Row]) -> None:
        """The rows on the way from a node along the usual spelling of a choice."""
        tokens, size = node.tokens, node.size
        for token in self.usual[choice, size] if self._looks_ahead(node) else ():
            if tokens not in rows:
                rows[tokens] = self._row(node, choice, size)
            tokens, size = (*tokens, token), size + len(self.spelling.bytes_of((token,)))
        if tokens not in rows and (
            self.end_token_ids or tokens == node.tokens or self._goes_on(node, choice)
        ):
            rows[tokens] = self._row(node, choice, size)

    def _looks_ahead(self, node: _Node) -> bool:
        """Whether to score all that is left of a choice: at the beginning, and where nothing short of it tells anything.

        Elsewhere a row at a time is less work, because most nodes turn out not to be worth their children.
        """
        return not node.tokens or not self.is_bounded

    def _goes_on(self, node: _Node, choice: int) -> bool:
        """Whether a longer choice begins with this one."""
        target = self.targets[choice]
        return any(other != choice and self.targets[other].startswith(target) for other in node.alive)

    def _row(self, node: _Node, choice: int, size: int) -> _Row:
        spelled = self.targets[choice][:size]
        alive = tuple(other for other in node.alive if self.targets[other].startswith(spelled))
        whole = [other for other in alive if size == len(self.targets[other])] if self.end_token_ids else []
        return _Row(size=size, alive=alive, nexts=self._next_tokens(alive, size), whole=whole)

    async def _spelled(self, choice: int, size: int) -> Tokens:
        """The tokens in which what is left of a choice is usually spelled."""
        rest = self.targets[choice][size:]
        if self.encode is not None:
            try:
                tokens = await self.encode(rest.decode())
            except UnicodeDecodeError:  # inside a character
                tokens = ()
            if self.spelling.bytes_of(tokens) == rest:
                return tokens
        found: list[int] = []
        while rest:
            *_, (token, taken) = [(0, 0), *self.spelling.beginnings(rest)]
            if taken == 0:
                break
            found.append(token)
            rest = rest[taken:]
        return tuple(found)

    def _next_tokens(self, alive: Sequence[int], size: int) -> dict[int, int]:
        """Tokens to score, with the number of bytes each spells."""
        found: dict[int, int] = {}
        for choice in alive:
            rest = self.targets[choice][size:]
            found.update(self.spelling.beginnings(rest))
            if rest and self._has_terminator(choice):
                found.update(
                    (token, len(self.spelling.bytes_of((token,)))) for token in self.spelling.longer(rest)
                )
        return found

    async def _totals(self, node: _Node, texts: Sequence[Tokens]) -> list[float]:
        """The log-probabilities of texts that go on from a node."""
        totals: list[float] = []
        for start in range(0, len(texts), _MAX_CONTINUATIONS):
            part = [text[len(node.tokens) :] for text in texts[start : start + _MAX_CONTINUATIONS]]
            scores = await self.score((*self.prefix, *node.tokens), part)
            if len(scores) != len(part):
                raise BackendError(f"the backend scored {len(scores)} of {len(part)} continuations")
            if self.cached_tokens is None:  # later nodes go on from the same prompt, which counts once
                self.cached_tokens = scores[0].usage.cached_tokens
            totals += [node.logprob + score.total for score in scores]
        return totals

    # -- what was scored ---------------------------------------------------------------------------

    def _take_row(
        self, tokens: Tokens, row: _Row, rows: Mapping[Tokens, _Row], logprobs: Mapping[Tokens, float]
    ) -> None:
        for token, size in row.nexts.items():
            text = (*tokens, token)
            self._advance(row, text, logprobs[text], size, is_open=text in rows)
        for choice in row.whole:
            weight = sum(math.exp(logprobs[(*tokens, end)]) for end in self.end_token_ids)
            self._found(choice, tokens, weight, logprobs[tokens])

    def _advance(self, row: _Row, text: Tokens, logprob: float, size: int, *, is_open: bool) -> None:
        if math.isinf(logprob):
            return
        spelled = self.spelling.bytes_of(text[-1:])
        end = row.size + size
        left: list[int] = []
        for choice in row.alive:
            rest = self.targets[choice][row.size :]
            if not rest or not (rest.startswith(spelled) or self._may_overshoot(choice, rest, spelled)):
                continue
            is_whole = end >= len(self.targets[choice])
            if is_whole and not self.end_token_ids:
                self._found(choice, text, math.exp(logprob), logprob)
            else:
                left.append(choice)
        if left and not is_open:
            expected = 0.0 if self.is_bounded else max(self._expected(choice, end) for choice in left)
            priority = -(logprob + expected)
            heapq.heappush(self.frontier, _Node(priority, logprob, text, end, tuple(left)))

    def _learn(
        self, node: _Node, choice: int, rows: Mapping[Tokens, _Row], logprobs: Mapping[Tokens, float]
    ) -> None:
        """Remember how likely the rest of a choice was, from each place on its usual spelling."""
        usual = self.usual[choice, node.size]
        total = logprobs.get(node.tokens + usual)
        if total is None or math.isinf(total):
            return
        size = node.size
        for place in range(len(usual) + 1):
            before = logprobs.get(node.tokens + usual[:place])
            if before is not None:
                self.rest[choice].setdefault(size, total - before)
            size += len(self.spelling.bytes_of(usual[place : place + 1]))

    def _expected(self, choice: int, size: int) -> float:
        """The log-probability to expect of the rest of a choice, from the nearest place where one is known."""
        known = sorted(self.rest[choice])
        place = bisect_left(known, size)
        return self.rest[choice][known[place]] if place < len(known) else 0.0

    def _has_terminator(self, choice: int) -> bool:
        return len(self.targets[choice]) > self.sizes[choice]

    def _may_overshoot(self, choice: int, rest: bytes, spelled: bytes) -> bool:
        return self._has_terminator(choice) and spelled.startswith(rest)

    def _found(self, choice: int, tokens: Tokens, weight: float, logprob: float) -> None:
        self.weights[choice] += weight
        best = self.best[choice]
        if best is None or logprob > best[1]:
            self.best[choice] = (tokens, logprob)


async def weigh(
    prefix: Tokens,
    choices: Sequence[str],
    *,
    terminator: str,
    end_token_ids: Tokens,
    spelling: Spelling,
    score: ScoreTokens,
    max_unexplored: float,
    encode: Callable[[str], Awaitable[Tokens]] | None = None,
) -> ChoiceWeights:
    """The weight of each choice after `prefix`.

    The event counted is: the text goes on with the choice, then `terminator` if there is one, else
    one of `end_token_ids` if there are any, else whatever the model likes (the choice ends at a token border).
    `encode` gives the usual spelling of a text; without it, the longest tokens are taken.
    """
    texts = [choice.encode() for choice in choices]
    search = _Search(
        prefix=prefix,
        targets=[text + terminator.encode() for text in texts],
        sizes=[len(text) for text in texts],
        end_token_ids=() if terminator else end_token_ids,
        spelling=spelling,
        encode=encode,
        score=score,
    )
    unexplored = await search.run(max_unexplored)
    spellings = {choice: best for choice, best in zip(choices, search.best, strict=True) if best is not None}
    return ChoiceWeights(
        weights=dict(zip(choices, search.weights, strict=True)),
        spellings=spellings,
        unexplored=unexplored,
        usage=Usage(prompt_tokens=len(prefix), cached_tokens=search.cached_tokens or 0, output_tokens=0),
    )
