"""Matchers of one automaton may be used by several threads at the same time, with a compiler on the machine or without."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sgrt_grammars import Vocabulary
from sgrt_grammars.automaton.cursor import Cursor
from sgrt_grammars.compiler import GrammarCompiler
from sgrt_grammars.constraint import JsonSchema
from sgrt_grammars.mask import empty_mask
from sgrt_grammars.matcher import Matcher, fill_masks

END = 0
VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)] + [b'{"', b'":'], end_token_ids=[END])
CONSTRAINT = JsonSchema(text='{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}')
TOKENS = b'{"a":12'


def _all_operations(matcher: Matcher) -> None:
    row = empty_mask(VOCABULARY.size)
    for token in TOKENS:
        matcher.mask(row)
        matcher.mask(row, 20)
        matcher.row()
        assert matcher.advance(token)
        matcher.forced_bytes()
        matcher.forced_tokens()
    assert not matcher.advance(ord("x"))
    matcher.rollback(1)
    assert matcher.fork().advance(ord("3"), 5)
    matcher.shortest_completion()
    matcher.explain()
    fill_masks([matcher, matcher.fork()], np.stack([row, row]), [None, 9])
    assert not matcher.is_accepting and not matcher.is_exhausted and not matcher.advance(END)


def test_every_operation_of_the_python_automaton_holds_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = GrammarCompiler(VOCABULARY, native=False).compile(CONSTRAINT)
    matcher = grammar.matcher()
    lock: Any = matcher.guard.lock
    seen: set[str] = set()

    def guarded(name: str, method: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            assert lock._is_owned(), f"{name} without the lock"
            seen.add(name)
            return method(*args, **kwargs)

        return call

    for name in ("fork", "mask", "node_mask", "advance", "rollback", "witness", "forced", "choices"):
        monkeypatch.setattr(Cursor, name, guarded(name, getattr(Cursor, name)))
    for name in ("is_accepting", "is_exhausted"):
        found = getattr(Cursor, name).fget
        monkeypatch.setattr(Cursor, name, property(guarded(name, found)))
    _all_operations(matcher)
    assert {"fork", "mask", "advance", "rollback", "witness", "forced", "is_accepting"} <= seen


@pytest.mark.parametrize("is_native", [False, True])
def test_threads_side_by_side_do_what_each_would_do_alone(is_native: bool) -> None:
    grammar = GrammarCompiler(VOCABULARY, native=is_native).compile(CONSTRAINT)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                _all_operations(grammar.matcher())
        except BaseException as error:  # noqa: BLE001 - shown by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
