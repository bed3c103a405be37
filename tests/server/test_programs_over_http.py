"""The same program gives the same variables, token for token, in process and over HTTP."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from scripted_engine import END, scripted_engine, tokenizer
from server_client import listening

import sgrt
from sgrt.backend.http import HttpBackend
from sgrt.config import EngineSettings
from sgrt.engine.engine import Engine
from sgrt.server.app import create_app
from sgrt.server.config import ServerConfig

LETTERS = [tokenizer().encode(letter)[0] for letter in "abcdefghij .\n"]


def hashed(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
    """Logits that depend on every token so far: one that went wrong on the wire changes all that follows."""
    digest = hashlib.sha256(array("I", [*prompt, *output]).tobytes()).digest()
    logits = {token: digest[place] / 40 for place, token in enumerate(LETTERS)}
    return {**logits, END: digest[31] / 60}


@pytest.fixture(scope="module")
def backends() -> Iterator[tuple[Engine, HttpBackend]]:
    """An engine, and a client of a server around another one."""
    settings: EngineSettings = {"checks_integrity": False}
    with (
        scripted_engine(hashed, settings=settings) as local,
        scripted_engine(hashed, settings=settings) as remote,
    ):
        app = create_app(remote, ServerConfig(model_names=("stub",)))
        with listening(app) as url, HttpBackend(url) as client:
            yield local, client


@dataclass(frozen=True)
class Pet:
    name: str
    age: int


@sgrt.function
def chat(s: sgrt.State, question: str) -> str:
    s.system("Be brief.")
    s.user(question)
    s.assistant(sgrt.gen("answer", max_tokens=12, temperature=0.8, stop="."))
    s.user("Sure?")
    with s.assistant():
        s += "Well, " + sgrt.gen("sure", max_tokens=10, logprobs=2)
    return s.value("answer", str)


@sgrt.function
def branches(s: sgrt.State, topic: str) -> None:
    s += f"About {topic}: "
    forks = s.fork(3)
    forks += lambda index: f"({index}) " + sgrt.gen("point", max_tokens=8, temperature=1.0)
    forks.join()
    s += "\n".join(s["point"]) + sgrt.gen("end", max_tokens=6, n=2, temperature=1.0)


@sgrt.function
def shapes(s: sgrt.State, who: str) -> None:
    s += f"{who}: " + sgrt.gen("pet", schema=Pet, max_tokens=40)
    s += sgrt.gen("age", int) + sgrt.gen("mood", choice=["good", "bad", "so so"])
    s += sgrt.gen("code", regex=r"[a-c]{2}-[0-9]{2}") + sgrt.select("kind", ["cat", "dog", "do"])
    s += "So " + sgrt.select("more", [" a b", " c"], temperature=1.0, terminator="\n")


@sgrt.function
async def looks(s: sgrt.State, word: str) -> list[float]:
    s += word
    value = await s.agen(str, max_tokens=5)
    if "a" in value:
        s += await s.agen(str, max_tokens=4, temperature=1.0)
    return [score.total for score in await s.ascore(["ab", "a", "c d"])]


@pytest.mark.parametrize("program", [chat, branches, shapes, looks], ids=lambda program: program.name)
def test_a_program_gives_the_same_in_process_and_over_http(
    program: sgrt.Program[..., Any], backends: tuple[Engine, HttpBackend]
) -> None:
    items = [("one",), ("another one",), ("zwei und drei",)]
    made = [program.on(backend).with_options(seed=3).run_batch(items) for backend in backends]
    local, remote = ([seen(state) for state in states] for states in made)
    assert local == remote


def seen(state: sgrt.State[Any]) -> object:
    calls = {
        call.label: (
            call.prompt,
            call.sampling,
            [(sample.token_ids, sample.text, sample.stop_reason, sample.stop) for sample in call.samples],
            [sample.origins for sample in call.samples],
            [sample.logprobs for sample in call.samples],
            call.probabilities,
            [score.logprobs for score in call.scores],
        )
        for call in state.trace.calls
    }
    return state.result, state.variables(), state.tokens(), calls
