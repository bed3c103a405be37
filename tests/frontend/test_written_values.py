"""What a program writes that is of a wrong kind is refused at its line, by the name it has there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from program_runs import run

from sgrt_frontend.call import Call, SamplingParams
from sgrt_frontend.errors import ConstraintError, ContextOverflow, InvalidRequest, ProgramError
from sgrt_frontend.expression import mark, user
from sgrt_frontend.gen import gen
from sgrt_frontend.program import Program, function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.select import select
from sgrt_frontend.slot import Slot
from sgrt_frontend.source import Source
from sgrt_frontend.state import State
from sgrt_grammars.constraint import Regex, RegexDialect

HALF = "a\ud800b"


@function
def number(s: State) -> int:
    s += "A number: " + gen("x", schema='{"type": "integer"}')
    return s.value("x", int)


@pytest.mark.parametrize(
    ("write", "param"),
    [
        (lambda: user(HALF), "text"),
        (lambda: user("a") + HALF, "text"),
        (lambda: HALF + gen("x"), "text"),
        (lambda: mark(HALF), "text"),
        (lambda: gen("x", choice=["a", HALF]), "choices"),
        (lambda: select("x", ["a", HALF]), "choices"),
        (lambda: gen("x", regex=HALF), "regex"),
        (lambda: gen("x", grammar=f'start: "{HALF}"'), "grammar"),
        (lambda: gen("x", stop=[HALF]), "stop"),
    ],
)
def test_half_a_character_is_refused_with_what_stands_around_it(
    write: Callable[[], object], param: str
) -> None:
    with pytest.raises(InvalidRequest, match=rf"{param}: .*half of a character") as raised:
        write()
    assert raised.value.param == param


def test_half_a_character_in_a_state_is_refused_at_its_line() -> None:
    def body(s: State) -> None:
        for append in (lambda: s.user(HALF), lambda: s.__iadd__(HALF), lambda: s.score([HALF])):
            with pytest.raises(InvalidRequest, match="half of a character"):
                append()

    run(body, ScriptedBackend([]))


@pytest.mark.parametrize("name", ["max_tokens", "min_tokens", "top_k", "seed", "logprobs"])
def test_true_is_no_number_of_a_sampling_parameter(name: str) -> None:
    given: dict[str, Any] = {name: True}
    with pytest.raises(InvalidRequest, match=f"{name}: must be a whole number, not True"):
        gen("x", **given)
    with pytest.raises(InvalidRequest, match=f"{name}: must be a whole number, not True"):
        SamplingParams(**given)


@pytest.mark.parametrize(
    ("write", "param"),
    [
        (lambda: gen("x", temperature=True), "temperature"),
        (lambda: gen("x", n=True), "n"),
        (lambda: gen("x").until(bool, attempts=True), "attempts"),
        (lambda: gen("x", timeout_s=True), "timeout_s"),
        (lambda: gen("x", timeout_s=float("nan")), "timeout_s"),
        (lambda: number.with_options(timeout_s=float("nan")), "timeout_s"),
        (lambda: number.with_options(timeout_s=True), "timeout_s"),
        (lambda: number.with_options(priority=True), "priority"),
        (lambda: number.on(ScriptedBackend([])).run_batch([()], concurrency=True), "concurrency"),
        (lambda: Call(prompt=(1,), deadline_s=float("nan")), "deadline_s"),
        (lambda: Call(prompt=(1,), priority=True), "priority"),
    ],
)
def test_true_and_nan_are_no_numbers(write: Callable[[], object], param: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{param}: ") as raised:
        write()
    assert raised.value.param == param


def test_true_and_nan_are_no_numbers_of_a_state() -> None:
    def body(s: State) -> None:
        with pytest.raises(InvalidRequest, match="count: must be a whole number"):
            s.fork(True)
        with (
            pytest.raises(InvalidRequest, match="seconds: must be a number of seconds"),
            s.timeout(float("nan")),
        ):
            pass

    run(body, ScriptedBackend([]))


def test_a_schema_may_be_json_text() -> None:
    assert number.on(ScriptedBackend(["12"])).run().result == 12


@pytest.mark.parametrize("wrong", [True, 5, "Model", "[1]", "null", ["a"]])
def test_what_is_no_schema_is_refused_by_that_name(wrong: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^schema: .*JSON") as raised:
        gen("x", schema=wrong)
    assert raised.value.param == "schema"


@pytest.mark.parametrize("pattern", [r"(?P<x>a)b(?P=x)", r"(a)\1"])
def test_a_pattern_that_is_not_regular_is_refused_at_its_line(pattern: str) -> None:
    with pytest.raises(ConstraintError, match=r"^regex .*backreferences.* not regular"):
        gen("x", regex=pattern)
    with pytest.raises(ConstraintError, match=r"^constraint .*backreferences.* not regular"):
        gen("x", constraint=Regex(pattern))


@pytest.mark.parametrize("pattern", [r"\p{L}+", r"(?<x>a)", r"\u{41}"])
def test_what_another_dialect_writes_is_told_where_it_goes(pattern: str) -> None:
    with pytest.raises(ConstraintError, match=r'write constraint=sgrt.Regex\(pattern, dialect="ecma"\)'):
        gen("x", regex=pattern)
    assert gen("x", constraint=Regex(pattern, dialect=RegexDialect.ECMA)).name == "x"


@pytest.mark.parametrize("name", ["raise_errors", "concurrency", "progress"])
def test_an_argument_of_batches_is_no_setting_and_says_where_it_goes(name: str) -> None:
    settings: dict[str, Any] = {name: 1}
    with pytest.raises(InvalidRequest, match=rf"write run_batch\(\.\.\., {name}="):
        number.with_options(**settings)


@function
def broken(s: State, divisor: int) -> float:
    return 1 / divisor


@function
async def abroken(s: State, divisor: int) -> float:
    return 1 / divisor


@pytest.mark.parametrize("program", [broken, abroken])
@pytest.mark.parametrize("planned", [True, False])
def test_the_result_of_a_failed_item_names_the_line_of_the_body(
    program: Program[[int], float], planned: bool
) -> None:
    on = program.on(ScriptedBackend([])).with_options(planned=planned)
    (state,) = on.map([0], raise_errors=False, progress=False)
    with pytest.raises(ProgramError, match="the body failed: ZeroDivisionError") as raised:
        _ = state.result
    line = program.body.__code__.co_firstlineno + 2
    assert raised.value.source == f"{__file__}:{line}"
    assert "generating" not in str(raised.value)


def test_an_interrupted_wait_is_not_its_own_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    slot = Slot("x", Source("file", 1))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Condition, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        slot.wait()
    assert raised.value.__cause__ is None


def test_a_text_that_no_context_holds_is_refused_before_it_is_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @function
    def long(s: State) -> str:
        s += "word " * 100_000 + gen("x", max_tokens=1)
        return s.value("x", str)

    backend = ScriptedBackend(["a"], context_tokens=100)

    def encode(text: str, **_: bool) -> tuple[int, ...]:
        assert len(text) < 1000, "megabytes take seconds"
        return (1,)

    monkeypatch.setattr(backend, "encode", encode)
    with pytest.raises(ProgramError, match="longer than the model's context length") as raised:
        long.on(backend).run()
    assert isinstance(raised.value.__cause__, ContextOverflow)
