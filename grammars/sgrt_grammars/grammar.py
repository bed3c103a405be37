"""A compiled constraint: an immutable root in the automaton its vocabulary shares."""

from __future__ import annotations

from functools import cached_property

from sgrt_grammars.automaton.core import Core
from sgrt_grammars.limits import Limits
from sgrt_grammars.matcher import Matcher
from sgrt_grammars.vocabulary import Vocabulary


class Automaton:
    """One vocabulary's automaton with the lock that guards it."""

    __slots__ = ("core", "limits", "lock", "vocabulary")

    def __init__(self, vocabulary: Vocabulary, core: Core, limits: Limits) -> None:
        self.vocabulary = vocabulary
        self.core = core
        self.limits = limits
        self.lock = core.lock


class Grammar:
    """Immutable; any number of matchers may run on it, in any threads."""

    def __init__(self, automaton: Automaton, root: int, *, memory_bytes: int) -> None:
        self._automaton = automaton
        self._root = root
        self.memory_bytes = memory_bytes

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary it was compiled against."""
        return self._automaton.vocabulary

    def matcher(self) -> Matcher:
        """A matcher at the start of the text."""
        automaton = self._automaton
        return Matcher(automaton.core.cursor(self._root), automaton.vocabulary, automaton)

    @cached_property
    def minimum_tokens(self) -> int:
        """Tokens of the shortest text known to satisfy the constraint; the end token is not counted."""
        return len(self.matcher().shortest_completion())
