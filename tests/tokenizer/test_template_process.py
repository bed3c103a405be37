"""Templates in a process of their own: the same text, and an end to those that do not end by themselves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from sgrt.tokenizer.disguise import Json
from sgrt.tokenizer.jinja_sandbox import TemplateRefusal
from sgrt.tokenizer.template_process import TemplateProcess
from sgrt.tokenizer.template_program import LocalTemplate, TemplateFailure

SOURCE = (
    "{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{%- if hang %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}"
    "{%- if grow %}{{ ('a' * 99999) | indent(99999) | replace('a', 'b' * 99999) }}{% endif %}"
    "{%- if refuse %}{{ raise_exception('no ' ~ refuse) }}{% endif %}"
    "{%- if break %}{{ messages + 1 }}{% endif %}"
)
VALUES: dict[str, Json] = {"messages": [{"role": "user", "content": "Grüße \U0001f600 \ud800 {{ x }}"}]}


@contextmanager
def isolated(source: str = SOURCE, *, limit_s: float = 0.3) -> Iterator[TemplateProcess]:
    process = TemplateProcess(source, limit_s=limit_s)
    try:
        yield process
    finally:
        process.close()


def test_it_writes_what_the_template_writes_here() -> None:
    with isolated() as process:
        assert process.run(VALUES) == LocalTemplate(SOURCE).run(VALUES)
        assert process.run({"messages": []}) == ""


def test_a_template_that_does_not_end_is_ended_and_the_next_rendering_works() -> None:
    with isolated() as process:
        with pytest.raises(TemplateFailure, match=r"ran for more than 0\.3 s"):
            process.run(VALUES | {"hang": True})
        assert process.run(VALUES) == LocalTemplate(SOURCE).run(VALUES)


def test_a_template_that_fills_the_memory_fails_alone() -> None:
    with isolated(limit_s=20.0) as process:
        with pytest.raises(TemplateFailure, match=r"MemoryError|ended"):
            process.run(VALUES | {"grow": True})
        assert process.run(VALUES) == LocalTemplate(SOURCE).run(VALUES)


def test_refusals_and_failures_come_through() -> None:
    with isolated() as process:
        with pytest.raises(TemplateRefusal, match="no system"):
            process.run(VALUES | {"refuse": "system"})
        with pytest.raises(TemplateFailure, match="failed on these messages: TypeError"):
            process.run(VALUES | {"break": True})
    with isolated("{% for %}") as process, pytest.raises(TemplateFailure, match="is malformed"):
        process.run(VALUES)


def test_many_threads_get_their_own_texts() -> None:
    found: dict[int, str] = {}
    with isolated() as process:

        def ask(number: int) -> None:
            for _ in range(20):
                found[number] = process.run({"messages": [{"role": "user", "content": str(number)}]})

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {number: f"<|user|>{number}\n" for number in range(8)}


@contextmanager
def interrupted(after_s: float) -> Iterator[None]:
    """Ctrl-C after so many seconds."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_an_interrupted_rendering_says_never_comes_as_the_answer_to_another() -> None:
    source = "{% for a in range(99999) %}{% endfor %}{{ name }}"
    num_interrupted = 0
    with isolated(source, limit_s=20.0) as process:
        process.run({"name": "first"})
        for number in range(7):
            try:
                with interrupted(0.0003 * 2**number):
                    process.run({"name": f"a{number}"})
            except KeyboardInterrupt:
                num_interrupted += 1
            assert process.run({"name": f"b{number}"}) == f"b{number}"
    assert num_interrupted > 0


def test_values_that_cannot_be_sent_do_no_harm_to_those_that_follow() -> None:
    with isolated() as process:
        process.run(VALUES)
        with pytest.raises(TypeError):
            process.run({"messages": object()})  # type: ignore[dict-item]  # no JSON
        assert process.run(VALUES) == LocalTemplate(SOURCE).run(VALUES)


@pytest.mark.parametrize("limit_s", [5, 5.0, 1e9])
def test_a_limit_may_be_any_positive_number(limit_s: float) -> None:
    with isolated(limit_s=limit_s) as process:
        assert process.run(VALUES) == LocalTemplate(SOURCE).run(VALUES)


def test_a_process_that_was_killed_is_replaced_and_a_closed_one_is_not() -> None:
    process = TemplateProcess(SOURCE, limit_s=1.0)
    process.run(VALUES)
    assert process._process is not None
    os.kill(process._process.pid, signal.SIGKILL)
    with pytest.raises(TemplateFailure, match="its process ended"):
        process.run(VALUES)
    assert process.run({"messages": []}) == ""
    process.close()
    with pytest.raises(TemplateFailure, match="closed"):
        process.run(VALUES)
