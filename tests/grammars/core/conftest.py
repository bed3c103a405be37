"""Fixtures of the grammar core: a compiler of the small vocabulary in each implementation."""

from __future__ import annotations

from functools import cache

import pytest

from sgrt_grammars import GrammarCompiler
from sgrt_native import NativeUnavailable
from tests.grammars.core.language_oracle import SMALL_VOCABULARY


@cache
def _compiler(is_native: bool) -> GrammarCompiler:
    return GrammarCompiler(SMALL_VOCABULARY, native=is_native)


@pytest.fixture(scope="session", params=["python", "native"])
def compiler(request: pytest.FixtureRequest) -> GrammarCompiler:
    """A compiler of the small vocabulary; its automaton is shared by all tests."""
    try:
        return _compiler(request.param == "native")
    except NativeUnavailable as error:
        pytest.skip(f"no native automaton: {error}")


@pytest.fixture(scope="session")
def compilers() -> tuple[GrammarCompiler, GrammarCompiler]:
    """The compiler in Python and the native one."""
    try:
        return _compiler(False), _compiler(True)
    except NativeUnavailable as error:
        pytest.skip(f"no native automaton: {error}")
