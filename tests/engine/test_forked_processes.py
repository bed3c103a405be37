"""What a forked child gets of an engine: an answer at once, and nothing of the parent's is touched."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence

import httpx
import pytest
from scripted_engine import scripted_engine

from sgrt.backend.http import HttpBackend
from sgrt.engine.engine import Engine
from sgrt_frontend.call import Call, Message, Role
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.state import State

GIVES_UP_AFTER_S = 30


def letters(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
    return {65: 9.0}


def in_a_fork(work: Callable[[], object]) -> str:
    """What `work` raises or returns in a forked child, as text."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the fork beside threads is the case under test
        child = os.fork()
    if child == 0:
        signal.alarm(GIVES_UP_AFTER_S)
        try:
            found = repr(work())
        except BaseException as error:  # noqa: BLE001 - the child must not go on into the tests
            found = f"{type(error).__name__}: {error}"
        os.write(writer, found.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return found


@function
def asks(s: State) -> str:
    s += "q" + gen("x", max_tokens=2)
    return s.value("x", str)


def _submits(engine: Engine) -> object:
    return engine.complete(Call(prompt=(72, 73)))


def _scores(engine: Engine) -> object:
    return engine.score_blocking((72,), [(73,)])


def _renders(engine: Engine) -> object:
    return engine.render([Message(role=Role.USER, content="a")], open_assistant=True)


def _asks(engine: Engine) -> object:
    return engine.flush_cache_blocking()


def _runs(engine: Engine) -> object:
    return asks.on(engine).run()


@pytest.mark.parametrize("use", [_submits, _scores, _renders, _asks, _runs])
def test_a_forked_engine_says_so_and_the_parents_goes_on(use: Callable[[Engine], object]) -> None:
    with scripted_engine(letters) as engine:
        found = in_a_fork(lambda: use(engine))
        assert f"the engine runs in process {os.getpid()}" in found
        assert engine.complete(Call(prompt=(72, 73)))


def test_closing_an_engine_in_a_fork_leaves_the_parents_alone() -> None:
    with scripted_engine(letters) as engine:
        assert in_a_fork(engine.close) == "None"
        assert engine.is_healthy()


def test_a_forked_backend_of_a_server_has_connections_of_its_own() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"token_ids": [os.getpid()]})

    with HttpBackend("http://server", transport=httpx.MockTransport(answer)) as backend:
        before = backend._client

        def encodes() -> bool:
            is_answered = backend.encode("a") == (os.getpid(),)
            return is_answered and backend._client is not before

        assert in_a_fork(encodes) == "True"
        assert backend._client is before
