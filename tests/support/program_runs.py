"""Runs bodies of programs."""

from __future__ import annotations

from sgrt_frontend.program import function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.state import State


def run(body: object, backend: ScriptedBackend) -> State:
    """The state of `body`, decorated and run to its end."""
    assert callable(body)
    return function(body).on(backend).run()
