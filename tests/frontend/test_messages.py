"""What an author is told: short, in the words of what they wrote, without the frames of what runs it."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from typing import Any

import pytest

import sgrt
from sgrt_frontend.call import Call, Chunk
from sgrt_frontend.errors import ConstraintError, ProgramError
from sgrt_frontend.options import use_backend
from sgrt_frontend.scripted import ScriptedBackend


@sgrt.function
def echo(s: sgrt.State, text: str) -> None:
    s += text + sgrt.gen("v", max_tokens=2)


@pytest.mark.parametrize("wrong", ["smollm2", 7, object(), ScriptedBackend])
def test_a_name_is_no_backend(wrong: Any) -> None:  # noqa: ANN401 (wrong on purpose)
    for use in (
        echo.on,
        lambda wrong: echo.with_options(backend=wrong),
        lambda wrong: use_backend(wrong).__enter__(),
    ):
        with pytest.raises(
            TypeError, match=r"is no backend; pass one that runs a model, such as sgrt\.Engine"
        ):
            use(wrong)


def test_the_name_of_a_model_is_put_where_it_belongs() -> None:
    with pytest.raises(TypeError, match=r"'smollm2' is no backend.*sgrt.Engine\('smollm2'\)"):
        echo.on("smollm2")  # type: ignore[arg-type]  # wrong on purpose


def test_a_failed_call_shows_its_cause_without_the_frames_it_came_through() -> None:
    @sgrt.function
    def read(s: sgrt.State) -> str:
        s += "a long prompt" + sgrt.gen("v", max_tokens=2)
        return s.value("v", str)

    with pytest.raises(ProgramError) as caught:
        read.on(ScriptedBackend(["a"], context_tokens=4)).run()
    shown = "".join(traceback.format_exception(caught.value)).splitlines()
    assert len(shown) < 35
    assert shown[0].startswith("sgrt_frontend.errors.ContextOverflow: the prompt has")
    assert sum("direct cause" in line for line in shown) == 1


def test_a_failure_that_nobody_foresaw_keeps_its_frames() -> None:
    class Broken(ScriptedBackend):
        def generate(self, call: Call) -> AsyncIterator[Chunk]:
            raise ZeroDivisionError("of a backend")

    @sgrt.function
    def read(s: sgrt.State) -> str:
        s += sgrt.gen("v", max_tokens=2)
        return s.value("v", str)

    with pytest.raises(ProgramError) as caught:
        read.on(Broken(["a"])).run()
    assert "raise ZeroDivisionError" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a(", "unterminated subpattern at position 1"),
        ("a{99999999999999999999}", "not a regular expression"),
    ],
)
def test_a_bad_regex_is_told_with_its_position_and_no_frames_of_the_parser(
    pattern: str, message: str
) -> None:
    with pytest.raises(ConstraintError, match=message) as caught:
        sgrt.gen("v", regex=pattern)
    assert "re/_parser" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_a_batch_shows_how_many_failed_and_the_first_few(count: int) -> None:
    backend = ScriptedBackend(["a"], context_tokens=4)
    with pytest.raises(sgrt.BatchError) as caught:
        echo.on(backend).map(["too long for it"] * count)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{count} of {count} items of echo failed:"
    assert [line.split(":")[0] for line in lines[1:4]] == [
        f"  item {index}" for index in range(min(3, count))
    ]
    assert lines[4:] == (
        [f"  and {count - 3} more; `states` of this error has them all"] if count > 3 else []
    )


def test_a_name_that_is_used_again_holds_the_newest_value_and_the_trace_keeps_both() -> None:
    @sgrt.function
    def twice(s: sgrt.State) -> None:
        s += "a" + sgrt.gen("v", max_tokens=1)
        s += "b" + sgrt.gen("v", max_tokens=1)

    state = twice.on(ScriptedBackend(["x", "y"])).run()
    assert state["v"] == "y"
    assert len(state.trace.calls) == 2
