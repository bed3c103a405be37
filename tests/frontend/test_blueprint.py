"""Static programs in a batch: the body is traced once, its steps are taken for every item, and nobody can tell."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from sgrt_frontend.batch import BatchError
from sgrt_frontend.expression import assistant, user
from sgrt_frontend.gen import gen
from sgrt_frontend.planning.drafting import Drafts
from sgrt_frontend.planning.purity import is_pure
from sgrt_frontend.program import Program, function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.select import select
from sgrt_frontend.state import State

THREADS: set[str] = set()
NOTES: list[str] = []


class Pet(BaseModel):
    name: str
    age: int


def answers(prompt: str) -> object:
    """Depends on the whole prompt, so that a wrong text anywhere shows."""
    if prompt.endswith("pet: "):
        return {"name": f"n{len(prompt)}", "age": len(prompt)}
    if prompt.endswith("age: "):
        return str(len(prompt))
    return f"{len(prompt)} {prompt[-6:]}."


def backend() -> ScriptedBackend:
    return ScriptedBackend(answers, likes=["b"])


@function
def plain(s: State, one: str, two: str) -> str:
    s += "Say " + one + f" and {two}: " + gen("x", max_tokens=20)
    s += f"\nAgain {s['x']}: " + gen("y", max_tokens=20)
    return f"{s['x']}|{s['y']}"


@function
def turns(s: State, question: str) -> None:
    s.system("Be brief.")
    s.user(question)
    with s.assistant():
        s += "Well: " + gen("answer", max_tokens=20)
    s += user("Sure?") + assistant(gen("sure", max_tokens=20))


@function
def forks(s: State, topic: str) -> list[str]:
    s += f"About {topic}.\n"
    branches = s.fork(3)
    branches += lambda index: f"Point {index}: " + gen("point", max_tokens=20)
    branches.join()
    s += "\n".join(s["point"]) + "\nSo: " + gen("end", max_tokens=20)
    return s.value("point", list)


@function
def typed(s: State, who: str) -> Pet:
    s += f"{who} has a pet: " + gen("pet", schema=Pet, max_tokens=60)
    s += "\nage: " + gen("age", int)
    s["note"] = f"{who} is {s['age']}"
    return s.value("pet", Pet)


@function
def chosen(s: State, what: str, stop: str) -> str:
    s += what + " is " + select("kind", ["a", "b"]) + " and "
    s += gen("more", max_tokens=30, stop=stop or ".")
    return s.value("kind", str)


@function
def expand(s: State, tip: str) -> str:
    s += f"Tip: {tip}\n" + gen("text", max_tokens=20)
    return s.value("text", str)


@function
def outline(s: State, topics: list[str], count: int) -> list[str]:
    for topic in topics[:count]:
        s += topic + ": " + gen(topic, max_tokens=20)
    children = [expand(s[topic]) for topic in topics[:count]]
    return [child.result for child in children]


@function
def scoped(s: State, topic: str) -> None:
    with s.var_scope("all"):
        s += f"On {topic}: " + gen("x", max_tokens=20)
    s += "names:" + gen("names", n=2, max_tokens=8, temperature=1.0)


@function
async def gathered(s: State, topic: str) -> str:
    s += f"On {topic}.\n"

    async def side(branch: State, word: str) -> str:
        branch += word + ": " + gen("claim", max_tokens=20)
        branch += f" {await branch.get('claim')} so: "
        return await branch.agen(max_tokens=20)

    found = await asyncio.gather(
        *(side(branch, word) for branch, word in zip(s.fork(2), ["for", "no"], strict=True))
    )
    s += " and ".join(found) + gen("end", max_tokens=20)
    return found[0]


CASES: list[tuple[Program[..., Any], list[dict[str, object]]]] = [
    (plain, [{"one": "a", "two": "bb"}, {"one": "", "two": "c"}]),
    (turns, [{"question": "Why?"}, {"question": "How come?"}]),
    (forks, [{"topic": "bees"}, {"topic": "ants and wasps"}]),
    (typed, [{"who": "Ann"}, {"who": "Bertha"}]),
    (chosen, [{"what": "It", "stop": ""}, {"what": "This", "stop": " b"}]),
    (outline, [{"topics": ["aa", "b"], "count": 2}, {"topics": ["x", "y"], "count": 1}]),
    (gathered, [{"topic": "rain"}, {"topic": "snow"}]),
    (scoped, [{"topic": "tea"}, {"topic": "milk"}]),
]


@pytest.mark.parametrize(("program", "items"), CASES, ids=lambda case: getattr(case, "name", ""))
def test_a_blueprint_gives_what_the_body_gives(
    program: Program[..., Any], items: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted: list[bool] = []
    draft = Drafts.draft

    async def watched(self: Drafts, body: Any) -> Any:  # noqa: ANN401 - as the original
        found = await draft(self, body)
        drafted.append(found is not None)
        return found

    async def never(self: Drafts, body: Any) -> None:  # noqa: ANN401 - as the original
        return None

    monkeypatch.setattr(Drafts, "draft", watched)
    planned = program.on(backend()).with_options(seed=5).run_batch(items)
    assert drafted == [True] * len(items), "the program is static"
    monkeypatch.setattr(Drafts, "draft", never)
    run = program.on(backend()).with_options(seed=5).run_batch(items)
    assert [seen(state) for state in planned] == [seen(state) for state in run]


def seen(state: State[Any]) -> object:
    calls = [
        (call.label, call.variable, call.source, call.prompt, call.sampling, call.constraint)
        for call in state.trace.calls
    ]
    metas = {name: meta_of(state, name) for name in state.variables()}
    return (
        *(state.result, state.variables(), state.text(), state.tokens(), state.messages()),
        *(sorted(calls, key=lambda call: call[0]), metas, state.trace.arguments),
    )


def meta_of(state: State[Any], name: str) -> object:
    slot = state._slots[name]
    if slot.meta is None:
        return None
    samples = [(sample.text, sample.token_ids, sample.stop_reason) for sample in slot.meta.samples]
    return samples, slot.meta.probabilities, slot.meta.usage.prompt_tokens, slot.meta.usage.output_tokens


@function
def noted(s: State, word: str) -> str:
    THREADS.add(threading.current_thread().name)
    s += word + gen("x", max_tokens=4)
    return s.value("x", str)


def test_a_static_program_needs_no_thread_and_no_body_per_item(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = 0

    def counting(body: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            nonlocal bodies
            bodies += 1
            return body(*args, **kwargs)

        return counted

    import sgrt_frontend.execution as execution  # noqa: PLC0415 - to watch one of its names

    monkeypatch.setattr(execution, "run_sync", counting(execution.run_sync))
    most = 0

    def reply(prompt: str) -> str:
        nonlocal most
        most = max(most, threading.active_count())
        return "ok"

    before = threading.active_count()
    items = [{"one": str(number), "two": "x" * number} for number in range(200)]
    states = plain.on(ScriptedBackend(reply)).run_batch(items, concurrency=64)
    assert [state.result for state in states] == ["ok|ok"] * 200
    assert bodies == 1
    assert most <= before + 2  # the loop's, and the one that traced


def test_a_body_with_effects_is_run_once_per_item_and_never_traced() -> None:
    @function
    def effects(s: State, word: str) -> None:
        NOTES.append(word)
        s += word + gen("x", max_tokens=4)

    NOTES.clear()
    effects.on(backend()).run_batch([{"word": "a"}, {"word": "b"}])
    assert sorted(NOTES) == ["a", "b"]
    assert not is_pure(effects.body) and not is_pure(noted.body)


def test_a_body_that_looks_at_a_generated_value_is_run() -> None:
    @function
    def looks(s: State, word: str) -> str:
        s += word + gen("x", max_tokens=8)
        if f"<{s['x']}>" == "<yes>":
            s += gen("more", max_tokens=8)
        return "more" if "more" in s else "done"

    replies = {"a": "yes", "b": "no"}
    scripted = ScriptedBackend(lambda prompt: replies.get(prompt, "end"))
    states = looks.on(scripted).run_batch([{"word": "a"}, {"word": "b"}])
    assert [state.result for state in states] == ["more", "done"]


def test_a_text_that_the_body_looks_into_is_fixed() -> None:
    @function
    def long(s: State, word: str, rest: str) -> None:
        s += rest + (" long" if len(word) > 3 else " short") + gen("x", max_tokens=16)

    states = long.on(backend()).run_batch([{"word": "abcd", "rest": "r"}, {"word": "ab", "rest": "rr"}])
    assert [state["x"] for state in states] == ["6 r long.", "8  short."]


def test_failures_stay_with_their_item() -> None:
    @function
    def count(s: State, word: str) -> int:
        s += word + gen("n", int)
        s += gen("after", max_tokens=4)
        return s.value("n", int)

    scripted = ScriptedBackend(lambda prompt: RuntimeError("no") if prompt == "bad" else "7")
    with pytest.raises(BatchError) as caught:
        count.on(scripted).run_batch([{"word": "good"}, {"word": "bad"}])
    good, bad = caught.value.states
    assert good.result == 7 and good.error is None
    assert bad.error is not None and "test_blueprint.py" in str(bad.error)


def test_arguments_with_private_characters_and_odd_types_are_fixed_or_run() -> None:
    @function
    def odd(s: State, word: str, thing: object) -> None:
        s += f"{word}{thing}" + gen("x", max_tokens=30)

    strange = "\U000f5a601\U000f5a61"
    states = odd.on(backend()).run_batch([{"word": strange, "thing": 1}, {"word": "a", "thing": {1, 2}}])
    assert states[0].text().startswith(strange + "1")
    assert states[1].text().startswith("a{1, 2}")


@pytest.mark.parametrize("program", [program for program, _ in CASES], ids=lambda program: program.name)
def test_bodies_that_only_append_are_pure(program: Program[..., Any]) -> None:
    assert is_pure(program.body)


CACHE: list[str] = []


def closes_over(s: State, x: str) -> None:
    CACHE.append(x)


def writes(s: State, x: str) -> None:
    with open(x, encoding="utf-8") as file:
        s += file.read()


def tries(s: State, x: str) -> None:
    try:
        s += x
    finally:
        s += gen("x")


def sets_an_attribute(s: State, x: Pet) -> None:
    x.age = 3


def private(s: State) -> None:
    s._scope.cancel()


def cancels(s: State) -> None:
    s.cancel()


def starts_a_thread(s: State) -> None:
    threading.Thread(target=s.cancel).start()


def calls_an_argument(s: State, x: Callable[[], str]) -> None:
    s += x()


def asks_inside(s: State, x: str) -> None:
    def inner() -> None:
        input(x)

    inner()


def sleeps(s: State) -> object:
    async def inner() -> None:
        await asyncio.sleep(0)

    return inner()


def decorates(s: State) -> None:
    @CACHE.append  # type: ignore[arg-type]  # any decorator may have effects
    def inner() -> None:
        return

    s += str(inner)


def calls_another(s: State, x: str) -> None:
    closes_over(s, x)


@pytest.mark.parametrize(
    "body",
    [
        *(closes_over, writes, tries, sets_an_attribute, private, cancels),
        *(starts_a_thread, calls_an_argument, calls_another, asks_inside, sleeps, decorates),
    ],
)
def test_anything_that_could_be_noticed_is_not_pure(body: Callable[..., object]) -> None:
    assert not is_pure(body)
