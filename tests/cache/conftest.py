"""Fixtures of the cache tests."""

from __future__ import annotations

import pytest
from token_pool import TokenPool


@pytest.fixture
def pool() -> TokenPool:
    """64 pages of 4 tokens."""
    return TokenPool(64, 4)
