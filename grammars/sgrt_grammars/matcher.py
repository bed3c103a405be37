"""The cursor of one generation: which tokens are allowed, and what follows from taking one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sgrt_grammars.automaton.core import Core, CoreCursor
from sgrt_grammars.automaton.node import FIRST_SPECIAL
from sgrt_grammars.explain import explain
from sgrt_grammars.forced import canonical_tokens
from sgrt_grammars.limits import Limits
from sgrt_grammars.mask import TokenMask, num_mask_words
from sgrt_grammars.vocabulary import Vocabulary


class Guard(Protocol):
    """What a matcher needs of its automaton: the core's budget and the lock that guards it."""

    @property
    def core(self) -> Core:
        """The automaton."""
        ...

    @property
    def limits(self) -> Limits:
        """Budgets of one operation."""
        ...

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held during each operation."""
        ...


class Matcher:
    """Small, forkable and rolled back at will. One matcher belongs to one thread at a time.

    A token is allowed iff some text of the constraint continues with it. End tokens are allowed exactly
    where the text may end; taking one changes nothing but `is_finished`.
    """

    __slots__ = ("_cursor", "_ends", "_guard", "_vocabulary")

    def __init__(self, cursor: CoreCursor, vocabulary: Vocabulary, guard: Guard) -> None:
        self._cursor = cursor
        self._vocabulary = vocabulary
        self._guard = guard
        self._ends = 0  # end tokens taken

    @property
    def cursor(self) -> CoreCursor:
        """The position in the automaton, for batched calls."""
        return self._cursor

    @property
    def guard(self) -> Guard:
        """The automaton's lock and budget; equal for all matchers of one automaton."""
        return self._guard

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the masks."""
        return self._vocabulary

    def mask(self, out: TokenMask, remaining: int | None = None) -> None:
        """Fill `out` (packed bits, `num_mask_words(vocabulary.size)` words) with the tokens allowed now.

        With `remaining` tokens left, only tokens are allowed after which a completion of at most
        `remaining - 1` tokens is known; the first token of the known completion always is. Raises
        `BudgetTooSmall` if no completion of `remaining` tokens is known.
        """
        if self._ends == 0 and self._cursor.mask_at_hand(out, remaining):
            return
        if out.shape != (num_mask_words(self._vocabulary.size),):
            raise ValueError(
                f"a mask row of {num_mask_words(self._vocabulary.size)} words is needed, got {out.shape}"
            )
        with self._guard.lock:
            if self._ends:
                self._only_end_tokens(out)
                return
            self._guard.core.start_operation(self._guard.limits.operation_time_s)
            self._cursor.mask(out, remaining)

    def _only_end_tokens(self, out: TokenMask) -> None:
        out[:] = 0
        for token in self._vocabulary.end_token_ids:
            out[token >> 5] |= 1 << (token & 31)

    def row(self) -> tuple[int, TokenMask] | None:
        """(id, row) of this state's mask where it depends on nothing but the state: equal ids, equal rows.

        None where it depends on what was generated before (unique items, duplicate keys). The row ignores budgets.
        """
        with self._guard.lock:
            self._guard.core.start_operation(self._guard.limits.operation_time_s)
            return None if self._ends else self._cursor.node_mask()

    def advance(self, token: int, remaining: int | None = None) -> bool:
        """Take `token`. False, and nothing changes, if the constraint does not allow it.

        With `remaining` (tokens left before this one), a token the budget's mask forbids is refused, too.
        """
        with self._guard.lock:
            if self._ends == 0 and remaining is None and self._cursor.advance(token):
                return True
            if token in self._vocabulary.end_token_ids:
                if not (self._ends or self._cursor.is_accepting):
                    return False
                self._ends += 1
                return True
            if self._ends or remaining is None or not 0 <= token < self._vocabulary.size:
                return False
            self._guard.core.start_operation(self._guard.limits.operation_time_s)
            return self._is_within(token, remaining) and self._cursor.advance(token)

    def _is_within(self, token: int, remaining: int) -> bool:
        witness = self._cursor.witness()
        if witness[:1] == (token,):
            return remaining >= len(witness)
        probe = self._cursor.fork()
        return probe.advance(token) and len(probe.witness(remaining - 1)) < remaining

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens."""
        with self._guard.lock:
            ends = min(self._ends, count)
            self._cursor.rollback(count - ends)
            self._ends -= ends

    def fork(self) -> Matcher:
        """An independent copy; cheap, as both share what lies behind them."""
        with self._guard.lock:
            copy = Matcher(self._cursor.fork(), self._vocabulary, self._guard)
            copy._ends = self._ends
            return copy

    def forced_bytes(self) -> bytes:
        """The bytes every continuation starts with."""
        symbols = self._forced_symbols()
        length = next((i for i, symbol in enumerate(symbols) if symbol >= FIRST_SPECIAL), len(symbols))
        return bytes(symbols[:length])

    def token_bytes(self, token: int) -> bytes:
        """The text of a token; none for one that is no text."""
        return self._vocabulary.tokens[token] or b""

    def forced_tokens(self) -> tuple[int, ...]:
        """The forced text as the tokenizer itself would spell it.

        The last token is held back where text follows, as it may merge with what comes next.
        """
        symbols = self._forced_symbols()
        if not symbols:
            return ()
        is_whole = self._ends_after(symbols)
        return canonical_tokens(symbols, self._vocabulary, is_whole=is_whole)

    def _forced_symbols(self) -> tuple[int, ...]:
        with self._guard.lock:
            self._guard.core.start_operation(self._guard.limits.operation_time_s)
            return () if self._ends else self._cursor.forced()

    def _ends_after(self, symbols: Sequence[int]) -> bool:
        """Whether the text is over after the forced symbols, so that nothing can merge with them."""
        with self._guard.lock:
            probe = self._cursor.fork()
            for token in canonical_tokens(symbols, self._vocabulary, is_whole=True):
                if not probe.advance(token):
                    return False
            return probe.is_exhausted

    def shortest_completion(self) -> tuple[int, ...]:
        """Tokens that complete the text from here: the known completion that budgets rest on."""
        with self._guard.lock:
            self._guard.core.start_operation(self._guard.limits.operation_time_s)
            return () if self._ends else self._cursor.witness()

    @property
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        with self._guard.lock:
            return bool(self._ends) or self._cursor.is_accepting

    @property
    def is_exhausted(self) -> bool:
        """Whether only an end token can follow."""
        with self._guard.lock:
            return bool(self._ends) or self._cursor.is_exhausted

    @property
    def is_finished(self) -> bool:
        """Whether an end token was taken."""
        return self._ends > 0

    def explain(self) -> str:
        """What is allowed now, in words."""
        with self._guard.lock:
            if self._ends:
                return "the text has ended"
            return explain(self._cursor, self._vocabulary)


def fill_masks(
    matchers: Sequence[Matcher], rows: TokenMask, remaining: Sequence[int | None] | None = None
) -> None:
    """Fill one row of `rows` ([matchers, words]) for each matcher; the interpreter is free meanwhile.

    Matchers of one compiler are filled in one call. `remaining` are their budgets; see `Matcher.mask`.
    """
    budgets = remaining if remaining is not None else [None] * len(matchers)
    if len(rows) < len(matchers) or len(budgets) != len(matchers):
        raise ValueError("one mask row and one budget per matcher is needed")
    running = [index for index, matcher in enumerate(matchers) if not matcher.is_finished]
    guards = {id(matchers[index].guard) for index in running}
    if len(running) < len(matchers) or len(guards) != 1:
        for matcher, row, budget in zip(matchers, rows, budgets, strict=False):
            matcher.mask(row, budget)
        return
    guard = matchers[0].guard
    with guard.lock:
        guard.core.fill([matcher.cursor for matcher in matchers], rows[: len(matchers)], budgets)


__all__ = ["Matcher", "fill_masks"]
