"""The engine's use of a grammar for one output: mask rows over drafts, forced text, and what the budget did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

TokenMasks = NDArray[np.uint32]  # [rows, words], bit t % 32 of word t // 32: token t is allowed


# Where looking costs a mask: how far above the shortest completion a budget may be and is still looked at.
_WATCHED_TOKENS = 256


class Matcher(Protocol):
    """A cursor in a compiled grammar (`sgrt_grammars` has the real one).

    `remaining` is how many tokens may still be generated, the next one included; None leaves budgets out.
    """

    @property
    def is_exhausted(self) -> bool:
        """Whether the text so far is complete and nothing can follow."""
        ...

    def mask(self, out: NDArray[np.uint32], remaining: int | None = None) -> None:
        """Write the tokens that may come next; end tokens are among them where the text is complete."""
        ...

    def row(self) -> tuple[int, NDArray[np.uint32]] | None:
        """A cached mask that leaves budgets out, and its id; None where there is none."""
        ...

    def advance(self, token: int, remaining: int | None = None) -> bool:
        """Take a token; False, and nothing changes, when it is not allowed."""
        ...

    def rollback(self, count: int) -> None:
        """Undo the last `count` tokens."""
        ...

    def fork(self) -> Self:
        """An independent copy."""
        ...

    def shortest_completion(self) -> Sequence[int]:
        """Tokens that complete the text from here: the known completion that budgets rest on."""
        ...

    def forced_bytes(self) -> bytes:
        """The text that must come next."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The text of a token; none for one that is no text."""
        ...

    def forced_tokens(self) -> Sequence[int]:
        """The canonical tokens of the text that must come next."""
        ...


class Grammar(Protocol):
    """A compiled constraint."""

    def matcher(self) -> Matcher:
        """A cursor at the start."""
        ...


class Spellings:
    """How forced text was spelled in tokens before, by the state of the grammar.

    A model often spells forced text otherwise than its tokenizer would, and then tends to do so again. A
    wrong draft costs a row of a forward pass and never changes the output.
    """

    __slots__ = ("_capacity", "_known")

    def __init__(self, capacity: int = 1 << 16) -> None:
        self._capacity = capacity
        self._known: dict[int, tuple[int, bool]] = {}

    def learn(self, state: int, token: int) -> None:
        """`token` was drawn in `state`."""
        if len(self._known) >= self._capacity:
            self._known.clear()
        last = self._known.get(state)
        self._known[state] = (token, last is not None and last[0] == token)

    def recall(self, state: int, *, is_sure: bool) -> int | None:
        """The token that was drawn in `state` last time; if `is_sure`, only one that was drawn twice running."""
        last = self._known.get(state)
        return None if last is None or (is_sure and not last[1]) else last[0]


class Guide:
    """A matcher, moved ahead over drafts while their masks are filled and back when they are settled.

    `narrowed` are, for the rows just filled in which the budget leaves out a token, the rows as they were without
    a budget. `was_narrowed` says that the budget changed the text: set by who draws from both.
    """

    __slots__ = (
        "_end_masks",
        "_forced",
        "_is_forced_behind",
        "_matcher",
        "_num_ahead",
        "_spellings",
        "_states",
        "narrowed",
        "was_narrowed",
    )

    def __init__(self, matcher: Matcher, end_token_ids: Iterable[int], spellings: Spellings) -> None:
        self._matcher = matcher
        self._spellings = spellings
        self._states: list[int | None] = []  # of the rows just filled, where text is forced
        self._forced: list[bytes] = []  # what must come next, by row just filled
        self._is_forced_behind = False  # whether forced text goes on behind the drafts
        self._num_ahead = 0
        self.narrowed: dict[int, NDArray[np.uint32]] = {}
        self.was_narrowed = False
        self._end_masks: dict[int, int] = {}  # word to the bits of end tokens in it
        for token in end_token_ids:
            self._end_masks[token // 32] = self._end_masks.get(token // 32, 0) | 1 << token % 32

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing can follow."""
        return self._matcher.is_exhausted

    def drafts(self, limit: int, *, is_sure: bool) -> list[int]:
        """Forced text as at most `limit` tokens: spelled as it was last time, else as the tokenizer does.

        If `is_sure`, only as far as it was spelled alike the last two times.
        """
        self._is_forced_behind = False
        if limit <= 0 or not self._matcher.forced_bytes():
            return []
        drafts: list[int] = []
        probe = self._matcher.fork()
        while len(drafts) < limit and (not drafts or probe.forced_bytes()):
            cached = probe.row()
            token = None if cached is None else self._spellings.recall(cached[0], is_sure=is_sure)
            if token is None or not probe.advance(token):
                self._is_forced_behind = True
                return drafts if is_sure else [*drafts, *probe.forced_tokens()][:limit]
            drafts.append(token)
        return drafts

    def learn(self, place: int, token: int) -> None:
        """`token` was drawn from row `place` of the rows just filled."""
        if place < len(self._states) and (state := self._states[place]) is not None:
            self._spellings.learn(state, token)

    def is_forced(self, place: int, token: int) -> bool:
        """Whether `token`, drawn from row `place` of the rows just filled, is nothing but forced text.

        A matter of the grammar alone: whether it was a draft, which the load decides, does not count.
        """
        text = self._matcher.token_bytes(token)
        return bool(text) and self._forced[place].startswith(text)

    def fill(self, rows: TokenMasks, drafts: Sequence[int], *, remaining: int, may_end_from: int) -> int:
        """Fill a mask row per position: before the first draft, and after each one.

        From row `may_end_from` on the text may end; before it end tokens are left out where something
        else is allowed. Returns how many drafts the grammar takes; rows beyond that are not filled.
        """
        assert self._num_ahead == 0, "drafts of the last step were not settled"
        self.narrowed = {}
        self._states = []
        self._forced = []
        for place in range(len(drafts) + 1):
            self._matcher.mask(rows[place], remaining - place)
            self._forced.append(self._matcher.forced_bytes())
            if not self.was_narrowed:
                self._watch(place, rows[place], remaining - place, may_end=place >= may_end_from)
            if place < may_end_from:
                self._delay_end(rows[place])
            if place < len(drafts) or self._is_forced_behind:
                cached = self._matcher.row()
                self._states.append(None if cached is None else cached[0])
            if place == len(drafts) or not _allows(rows[place], drafts[place]):
                break
            self._take(drafts[place])
            self._num_ahead += 1
        return self._num_ahead

    def settle(self, num_accepted: int) -> None:
        """Keep the first `num_accepted` drafts; the cursor stands behind them."""
        if self._num_ahead > num_accepted:
            self._matcher.rollback(self._num_ahead - num_accepted)
        self._num_ahead = 0

    def advance(self, token: int) -> None:
        """Take a token that was drawn under the mask at the cursor."""
        self._take(token)

    def _take(self, token: int) -> None:
        is_taken = self._matcher.advance(token)
        assert is_taken, f"token {token} was allowed by a mask and then refused"

    def _watch(self, place: int, row: NDArray[np.uint32], remaining: int, *, may_end: bool) -> None:
        """Note the row without a budget if the budget leaves something out of it."""
        whole = self._row_without_budget(row, remaining)
        if whole is None or np.array_equal(whole, row):
            return
        self.narrowed[place] = whole if may_end else whole.copy()
        if not may_end:
            self._delay_end(self.narrowed[place])

    def _row_without_budget(self, row: NDArray[np.uint32], remaining: int) -> NDArray[np.uint32] | None:
        """None where it is not at hand and the budget is far from what completes the text."""
        cached = self._matcher.row()
        if cached is not None:
            return cached[1]
        if remaining > _WATCHED_TOKENS + len(self._matcher.shortest_completion()):
            return None
        whole = np.zeros_like(row)
        self._matcher.mask(whole)
        return whole

    def _delay_end(self, row: NDArray[np.uint32]) -> None:
        saved = {word: int(row[word]) for word in self._end_masks}
        for word, bits in self._end_masks.items():
            row[word] &= np.uint32(~bits & 0xFFFF_FFFF)
        if not row.any():
            for word, value in saved.items():
                row[word] = value


def _allows(row: NDArray[np.uint32], token: int) -> bool:
    return bool(int(row[token // 32]) >> token % 32 & 1)


def is_single(row: NDArray[np.uint32]) -> bool:
    """Whether a mask row allows exactly one token."""
    words = row[row != 0]
    return len(words) == 1 and int(words[0]).bit_count() == 1
