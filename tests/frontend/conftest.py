"""Fixtures of the frontend's tests: backends that answer from scripts."""

from __future__ import annotations

import pytest

from sgrt_frontend.scripted import ScriptedBackend


@pytest.fixture
def echo() -> ScriptedBackend:
    """A backend that answers every call with the same word."""
    return ScriptedBackend(lambda prompt: "word")
