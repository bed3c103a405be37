"""Programs: running, arguments, options, methods, async bodies, nesting."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from sgrt_frontend.call import Call, Chunk
from sgrt_frontend.errors import Cancelled, DeadlineExceeded, InvalidRequest
from sgrt_frontend.gen import gen
from sgrt_frontend.options import use_backend
from sgrt_frontend.program import function
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_frontend.state import State


@function
def capital(s: State, country: str) -> str:
    s += f"The capital of {country} is"
    s += gen("city")
    return s.value("city", str)


def test_a_run_returns_a_state_with_variables_text_and_result() -> None:
    state = capital.on(ScriptedBackend([" Paris"])).run("France")
    assert state["city"] == " Paris"
    assert state.result == " Paris"
    assert state.text() == "The capital of France is Paris"
    assert "city" in state and "town" not in state


def test_a_program_without_a_backend_says_how_to_name_one() -> None:
    with pytest.raises(InvalidRequest, match="use_backend"):
        capital.run("France")


def test_a_surrounding_block_provides_the_backend(echo: ScriptedBackend) -> None:
    with use_backend(echo):
        assert capital.run("France").result == "word"
    with pytest.raises(InvalidRequest):
        capital.run("France")


def test_parameters_may_have_any_name_even_those_of_options() -> None:
    @function
    def program(s: State, n: int, backend: str, temperature: float, stream: bool, seed: int) -> str:
        s += f"{n} {backend} {temperature} {stream} {seed}"
        s += gen("x")
        return s.text()

    state = program.on(ScriptedBackend(["!"])).run(n=3, backend="b", temperature=0.5, stream=True, seed=1)
    assert state.result == "3 b 0.5 True 1!"


def test_wrong_arguments_fail_before_anything_runs() -> None:
    backend = ScriptedBackend([])
    with pytest.raises(TypeError, match="country"):
        capital.on(backend).run()  # type: ignore[call-arg]  # the mistake under test
    assert not backend.calls


class Guide:
    def __init__(self, tone: str) -> None:
        self.tone = tone

    @function
    def greet(self, s: State, name: str) -> str:
        s += f"{self.tone}: {name}"
        s += gen("greeting")
        return s.value("greeting", str)

    @function
    async def agreet(self, s: State, name: str) -> str:
        s += f"{self.tone}: {name}"
        return await s.agen()


def test_methods_are_programs() -> None:
    guide = Guide("warm")
    state = guide.greet.on(ScriptedBackend(["hello"])).run("Ann")
    assert state.result == "hello"
    assert state.text() == "warm: Annhello"
    assert guide.agreet.on(ScriptedBackend(["hi"])).run("Ann").result == "hi"


def test_async_bodies_run_from_ordinary_code_and_on_a_loop() -> None:
    @function
    async def program(s: State, question: str) -> int:
        s += question
        number = await s.agen(int)
        s += " and "
        s += gen("rest")
        assert await s.get("rest", str) == "more"
        return number

    assert program.on(ScriptedBackend([42, "more"])).run("q").result == 42
    state = asyncio.run(program.on(ScriptedBackend([42, "more"])).arun("q"))
    assert state.result == 42
    assert state.text() == "q42 and more"


def test_ordinary_runs_work_inside_a_running_loop() -> None:
    async def notebook() -> str:
        return capital.on(ScriptedBackend([" Rome"])).run("Italy").result

    assert asyncio.run(notebook()) == " Rome"


def test_sync_bodies_run_on_a_loop_without_blocking_it() -> None:
    async def both() -> list[str]:
        backend = ScriptedBackend(lambda prompt: Answer(text=prompt[-5:], delay_s=0.01))
        states = await asyncio.gather(capital.on(backend).arun("France"), capital.on(backend).arun("Italy"))
        return [state.result for state in states]

    assert asyncio.run(both()) == ["ce is", "ly is"]


def test_an_async_body_that_blocks_on_itself_is_told_to_await() -> None:
    @function
    async def program(s: State) -> object:
        s += "q" + gen("x")
        return s.value("x")

    with pytest.raises(InvalidRequest, match=r"await s.get\('x'\)"):
        program.on(ScriptedBackend([Answer(text="a", delay_s=0.05)])).run()


def test_an_async_def_body_is_awaited() -> None:
    ran: list[str] = []

    @function
    async def program(s: State) -> None:
        ran.append("body")

    program.on(ScriptedBackend([])).run()
    assert ran == ["body"]


def test_the_body_runs_once_per_item() -> None:
    ran: list[int] = []

    @function
    def program(s: State, number: int) -> None:
        ran.append(number)
        s += f"{number}" + gen("x")

    program.on(ScriptedBackend(lambda prompt: "a")).run_batch([(1,), (2,)])
    assert sorted(ran) == [1, 2]


def test_a_run_that_takes_too_long_is_cancelled() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x")
        s["x"]

    with pytest.raises((DeadlineExceeded, Cancelled)):
        program.on(ScriptedBackend([Answer(text="a", delay_s=30)])).with_options(timeout_s=0.05).run()


def test_a_finished_state_can_be_read_but_not_continued(echo: ScriptedBackend) -> None:
    state = capital.on(echo).run("France")
    assert state.tokens()
    with pytest.raises(InvalidRequest, match="the run is over"):
        state += gen("more")


def test_no_thread_is_left_behind(echo: ScriptedBackend) -> None:
    before = threading.active_count()
    capital.on(echo).run("France")
    capital.on(echo).run_batch([("a",), ("b",)])
    assert threading.active_count() == before


def test_wide_forks_need_no_threads_of_their_own() -> None:
    most = 0

    @function
    def wide(s: State, item: int) -> int:
        nonlocal most
        s += f"item {item}"
        forks = s.fork(64)
        forks += gen("x")
        total = len(forks.values("x"))
        most = max(most, threading.active_count())
        return total

    backend = ScriptedBackend(lambda prompt: Answer(text="a", delay_s=0.005))
    states = wide.on(backend).run_batch([(number,) for number in range(8)])
    assert [state.result for state in states] == [64] * 8
    assert most < 16


def test_what_is_no_function_of_a_state_is_refused() -> None:
    def stateless() -> None: ...

    with pytest.raises(InvalidRequest, match="first parameter"):
        function(stateless)  # type: ignore[arg-type]  # the mistake under test

    def generator(s: State) -> Iterator[int]:
        yield 1

    with pytest.raises(InvalidRequest, match="generator"):
        function(generator)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt; a shell's background job inherits "ignore" for it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_stops_a_run_and_cancels_its_calls() -> None:
    """Ctrl-C while the body waits for a value, and while a batch runs."""
    closed = threading.Event()

    class Slow(ScriptedBackend):
        async def generate(self, call: Call) -> AsyncIterator[Chunk]:
            main = threading.main_thread().ident
            threading.Timer(0.05, signal.pthread_kill, [main, signal.SIGINT]).start()
            try:
                await asyncio.sleep(60)
                yield Chunk()
            finally:
                closed.set()

    @function
    def program(s: State) -> None:
        s += "q" + gen("x")
        s["x"]

    before = threading.active_count()
    for start in (lambda: program.on(Slow([])).run(), lambda: program.on(Slow([])).run_batch([()])):
        closed.clear()
        with pytest.raises(KeyboardInterrupt):
            start()
        assert closed.wait(5)
    assert threading.active_count() <= before + 1  # the timer's own thread may still be ending
