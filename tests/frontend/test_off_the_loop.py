"""What takes its time (tools, a backend far away) does not stop the loop that all branches run on."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Sequence
from dataclasses import replace

from sgrt_frontend.call import Description
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.select import select
from sgrt_frontend.state import State
from sgrt_frontend.tools import Tool

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("TENANT")


def test_an_ordinary_tool_lets_the_loop_go_on() -> None:
    has_ticked = threading.Event()

    def slow(word: str) -> str:
        """Waits until the loop has gone on."""
        return f"{word} {has_ticked.wait(10)} {TENANT.get()}"

    async def main() -> object:
        TENANT.set("a")
        tool = Tool(slow)
        running = asyncio.create_task(tool.run(tool.arguments_type(word="w")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        has_ticked.set()
        return await running

    assert asyncio.run(main()) == "w True a"


def test_an_async_tool_runs_on_the_loop() -> None:
    async def here(word: str) -> int:
        """Says where it runs."""
        return threading.get_ident()

    tool = Tool(here)
    assert asyncio.run(tool.run(tool.arguments_type(word="w"))) == threading.get_ident()


class FarAway(ScriptedBackend):
    """Remembers which threads asked it to encode and decode."""

    def __init__(self, script: Sequence[object], *, is_remote: bool) -> None:
        super().__init__(script, likes=("yes",))
        self.askers: set[int] = set()
        self._is_remote = is_remote

    def describe(self) -> Description:
        return replace(super().describe(), is_remote=self._is_remote)

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        self.askers.add(threading.get_ident())
        return super().encode(text, special=special, is_start=is_start)

    def decode(self, token_ids: Sequence[int]) -> str:
        self.askers.add(threading.get_ident())
        return super().decode(token_ids)


@function
async def everything(s: State) -> int:
    s += "Is it so? "
    s += select("answer", ["yes", "no"])
    s += " because" + gen("why", stop=".")
    s += " and of course" + gen("more", heal=True)
    await s.get("more")
    return threading.get_ident()


def test_a_backend_far_away_is_never_asked_from_the_loop() -> None:
    backend = FarAway(["it is. Yes", " it is"], is_remote=True)
    loop_thread = everything.on(backend).run().result
    assert backend.askers and loop_thread not in backend.askers


def test_a_backend_in_this_process_is_asked_without_a_thread() -> None:
    backend = FarAway(["it is. Yes", " it is"], is_remote=False)
    loop_thread = everything.on(backend).run().result
    assert backend.askers == {loop_thread}


def test_threads_for_a_backend_far_away_end_with_the_run() -> None:
    before = threading.active_count()
    everything.on(FarAway(["it is. Yes", " it is"], is_remote=True)).run()
    assert threading.active_count() == before
