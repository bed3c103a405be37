"""A backend whose every generation is five tokens."""

from __future__ import annotations

from sgrt_frontend.scripted import ScriptedBackend

FIVE = "a b c d e"


def five_words() -> ScriptedBackend:
    """It answers `FIVE` to every call, and likes "yes"."""
    backend = ScriptedBackend(lambda prompt: FIVE, likes=["yes"])
    assert len(backend.encode(FIVE)) == 5
    return backend
