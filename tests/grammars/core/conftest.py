"""Fixtures of the grammar core: one compiler per implementation, its automaton shared by all tests."""

from __future__ import annotations

import pytest

from sgrt_grammars import GrammarCompiler
from tests.grammars.core.language_oracle import SMALL_VOCABULARY


@pytest.fixture(scope="session")
def compiler() -> GrammarCompiler:
    """A compiler of the small vocabulary."""
    return GrammarCompiler(SMALL_VOCABULARY)
