"""Vocabularies learned once for all tests."""

from __future__ import annotations

import pytest
from learned_vocabulary import Learned, learn_byte_level, learn_pieces

from sgrt.tokenizer.data import ScoredPieces


@pytest.fixture
def byte_level() -> Learned:
    """A byte-level vocabulary; its words are cut as GPT-2 cuts them."""
    return learn_byte_level()


@pytest.fixture
def scored_pieces() -> ScoredPieces:
    """A SentencePiece vocabulary."""
    return learn_pieces()
