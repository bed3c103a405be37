"""Compilation: constraints to grammars, cached by content and bounded in time and bytes."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from importlib import import_module

from sgrt_grammars.automaton.core import Core
from sgrt_grammars.constraint import Constraint
from sgrt_grammars.errors import UnsatisfiableConstraint
from sgrt_grammars.expression import Expression
from sgrt_grammars.grammar import Automaton, Grammar
from sgrt_grammars.limits import Limits
from sgrt_grammars.lowering import lower
from sgrt_grammars.mask import empty_mask
from sgrt_grammars.native.core import NativeCore
from sgrt_grammars.native.library import Library
from sgrt_grammars.vocabulary import Vocabulary
from sgrt_native import NativeUnavailable

_LOG = logging.getLogger(__name__)
DEFAULT_CACHE_BYTES = 1 << 30


class GrammarCompiler:
    """Compiles constraints against one vocabulary. Grammars share states and masks.

    Equal constraints give the same grammar while it is in the cache, which is least-recently-used and bounded in
    `cache_bytes`. When the shared automaton outgrows that bound, a fresh one is started; grammars that
    are still held keep theirs. Errors are not cached. Safe to call from several threads.

    `native=None` takes the native automaton where a compiler is found and else the one in Python; True insists
    on it (raises `NativeUnavailable`), False takes the one in Python. Both give the same masks. The one in Python is
    imported when it is taken, as front ends are when the first of their constraints comes.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        limits: Limits | None = None,
        *,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        native: bool | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self._limits = limits or Limits()
        self._cache_bytes = cache_bytes
        self._native = native
        self._lock = threading.Lock()
        self._grammars: OrderedDict[Constraint, Grammar] = OrderedDict()
        self._held_bytes = 0
        self._automaton = self._fresh_automaton()

    def _fresh_automaton(self) -> Automaton:
        return Automaton(self.vocabulary, self._fresh_core(), self._limits)

    def _fresh_core(self) -> Core:
        if self._native is not False:
            try:
                return NativeCore(self.vocabulary, self._limits, Library())
            except NativeUnavailable as error:
                if self._native:
                    raise
                _LOG.warning("grammars run in Python, which is slower: %s", error)
        core: Core = import_module("sgrt_grammars.automaton.python_core").PythonCore(
            self.vocabulary, self._limits
        )
        return core

    def compile(self, constraint: Constraint) -> Grammar:
        """The grammar of `constraint`. Raises a `GrammarError` that says what cannot be kept, and where."""
        found = self.cached(constraint)
        if found is not None:
            return found
        grammar = self.compile_expression(lower(constraint, self.vocabulary))
        with self._lock:
            self._keep(constraint, grammar)
        return grammar

    def cached(self, constraint: Constraint) -> Grammar | None:
        """The grammar of `constraint` if it is in the cache; never waits for a compilation."""
        with self._lock:
            found = self._grammars.get(constraint)
            if found is not None:
                self._grammars.move_to_end(constraint)
            return found

    def compile_expression(self, expression: Expression) -> Grammar:
        """The grammar of an expression, not cached as a whole (its states are)."""
        automaton = self._roomy_automaton()
        core = automaton.core
        with automaton.lock:
            core.start_operation(self._limits.time_s)
            before = core.num_bytes
            root = core.root(expression)
            if not core.is_alive(root):
                raise UnsatisfiableConstraint("no text of this vocabulary satisfies the constraint")
            # The first mask is needed as soon as the grammar is, and compilation is where time may be taken.
            core.cursor(root).mask(empty_mask(self.vocabulary.size), None)
            return Grammar(automaton, root, memory_bytes=1024 + core.num_bytes - before)

    def _roomy_automaton(self) -> Automaton:
        with self._lock:
            if self._automaton.core.num_bytes > self._cache_bytes:
                self._automaton.core.clear_masks()
                if self._automaton.core.num_bytes > self._cache_bytes // 2:
                    self._automaton = self._fresh_automaton()
                    self._grammars.clear()
                    self._held_bytes = 0
            return self._automaton

    def _keep(self, constraint: Constraint, grammar: Grammar) -> None:
        self._grammars[constraint] = grammar
        self._held_bytes += grammar.memory_bytes
        while self._held_bytes > self._cache_bytes and len(self._grammars) > 1:
            _, evicted = self._grammars.popitem(last=False)
            self._held_bytes -= evicted.memory_bytes


def shared_compiler(vocabulary: Vocabulary) -> GrammarCompiler:
    """The compiler that goes with a vocabulary object."""
    return vocabulary.derived("compiler", lambda: GrammarCompiler(vocabulary))


def compile_grammar(constraint: Constraint, vocabulary: Vocabulary) -> Grammar:
    """Compile with the vocabulary's own compiler, so all its grammars share states and masks."""
    return shared_compiler(vocabulary).compile(constraint)


def compile_expression(expression: Expression, vocabulary: Vocabulary) -> Grammar:
    """Compile an expression with the vocabulary's own compiler."""
    return shared_compiler(vocabulary).compile_expression(expression)
