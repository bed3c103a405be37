"""Constraints in the engine: forced drafts change nothing, budgets close every text, shapes always hold."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import jsonschema
import pytest
from engine_driver import hashed
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_engine import END, scripted_engine, tokenizer
from tiny_models import VOCABULARY

from sgrt.engine.completion import Completion
from sgrt.engine.engine import Engine
from sgrt.errors import ConstraintError
from sgrt_frontend.call import Call, Origin, SamplingParams, StopReason
from sgrt_grammars.compiler import GrammarCompiler
from sgrt_grammars.constraint import Choice, Constraint, JsonSchema, Regex
from sgrt_grammars.limits import Limits

TICKET = {
    "type": "object",
    "properties": {
        "category": {"enum": ["refund", "shipping", "other"]},
        "priority": {"type": "integer", "minimum": 1, "maximum": 5},
        "needs_human": {"type": "boolean"},
        "summary": {"type": "string", "minLength": 2, "maxLength": 12},
    },
    "required": ["category", "priority", "needs_human", "summary"],
    "additionalProperties": False,
}
CONSTRAINTS: dict[str, Constraint] = {
    "ticket": JsonSchema(text=json.dumps(TICKET)),
    "list": JsonSchema(text='{"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4}'),
    "choice": Choice(options=("the inner one", "the inner two", "another", "an option")),
    "regex": Regex(pattern=r"on the (inn|inner) [a-e]{1,6} the end"),
}


Engines = tuple[Engine, Engine]


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """Without drafts and with; both check every count after every step."""
    script = hashed(VOCABULARY, END)
    with (
        scripted_engine(script, settings={"max_draft_tokens": 0}) as plain,
        scripted_engine(script, settings={"max_draft_tokens": 16}) as fast,
    ):
        yield plain, fast


def _complete(engine: Engine, constraint: Constraint, prompt: str, **sampling: object) -> Completion:
    params = SamplingParams(**sampling)  # type: ignore[arg-type]  # test keywords
    return engine.complete(Call(prompt=tokenizer().encode(prompt), constraint=constraint, sampling=params))[0]


def _check_shape(name: str, text: str) -> None:
    constraint = CONSTRAINTS[name]
    if isinstance(constraint, JsonSchema):
        jsonschema.validate(json.loads(text), json.loads(constraint.text))
    elif isinstance(constraint, Choice):
        assert text in constraint.options


@settings(max_examples=40)
@given(
    name=st.sampled_from(sorted(CONSTRAINTS)),
    prompt=st.text("ab", min_size=1, max_size=6),
    temperature=st.sampled_from([0.0, 0.8, 2.0]),
    spare_tokens=st.sampled_from([0, 1, 3, 10, 80]),
)
def test_drafts_give_what_plain_decoding_gives_and_every_budget_closes(
    engines: Engines, name: str, prompt: str, temperature: float, spare_tokens: int
) -> None:
    plain, fast = engines
    needed = _needed(plain, name)
    options = {"temperature": temperature, "seed": 11, "max_tokens": needed + spare_tokens, "logprobs": 1}
    left = _complete(plain, CONSTRAINTS[name], prompt, **options)
    right = _complete(fast, CONSTRAINTS[name], prompt, **options)
    assert left.token_ids == right.token_ids
    assert left.origins == right.origins  # drafts are a matter of load, origins of the grammar
    assert left.finish.usage.forced_tokens == right.finish.usage.forced_tokens
    assert left.finish.reason is right.finish.reason in (StopReason.END_OF_TEXT, StopReason.BUDGET)
    assert len(left.token_ids) <= needed + spare_tokens
    _check_shape(name, left.text)
    for one, other in zip(left.logprobs, right.logprobs, strict=True):
        assert one.chosen.logprob == pytest.approx(other.chosen.logprob, abs=1e-5)


def _needed(engine: Engine, name: str) -> int:
    try:
        _complete(engine, CONSTRAINTS[name], "x", max_tokens=1)
    except ConstraintError as error:
        return int(str(error).rsplit(" ", 1)[1])
    raise AssertionError("no constraint here fits one token")


def test_forced_text_needs_fewer_passes(engines: Engines) -> None:
    plain, fast = engines
    before = plain.counters.steps, fast.counters.steps
    for prompt in ("a", "b", "c"):
        left = _complete(plain, CONSTRAINTS["ticket"], prompt, max_tokens=200)
        right = _complete(fast, CONSTRAINTS["ticket"], prompt, max_tokens=200)
        assert left.token_ids == right.token_ids
        assert right.origins.count(Origin.FORCED) > 10
    steps = plain.counters.steps - before[0], fast.counters.steps - before[1]
    assert steps[1] < 0.75 * steps[0]


def test_a_text_cut_by_its_budget_says_so(engines: Engines) -> None:
    engine = engines[1]
    endless = {"constraint": Regex(pattern="[ab]{3,2000}"), "logit_bias": ((END, -100.0),)}
    cut = _complete(engine, prompt="a", max_tokens=6, **endless)  # type: ignore[arg-type]  # test keywords
    assert (len(cut.token_ids), cut.finish.reason) == (6, StopReason.BUDGET)
    assert (
        _complete(engine, Choice(options=("on",)), "a", max_tokens=6).finish.reason is StopReason.END_OF_TEXT
    )


def test_the_same_constrained_request_works_again_after_one_that_was_cut_short(engines: Engines) -> None:
    engine = engines[1]
    first = _complete(engine, CONSTRAINTS["ticket"], "again", max_tokens=200)
    with engine.submit(
        Call(prompt=tokenizer().encode("again"), constraint=CONSTRAINTS["ticket"], sampling=SamplingParams())
    ) as stream:
        next(iter(stream))
    for _ in range(3):
        assert _complete(engine, CONSTRAINTS["ticket"], "again", max_tokens=200).token_ids == first.token_ids


def test_a_grammar_whose_shortest_text_is_not_found_is_not_searched_on_the_thread_of_the_caller() -> None:
    with scripted_engine(hashed()) as engine:
        vocabulary = engine._grammars._compiler.vocabulary
        engine._grammars._compiler = GrammarCompiler(vocabulary, limits=Limits(operation_time_s=1e-9))
        names = [f"p{number}" for number in range(300)]
        schema = {
            "type": "object",
            "properties": {name: {"type": "boolean"} for name in names},
            "required": names,
        }
        hard = Call(prompt=(1, 2), constraint=JsonSchema(text=json.dumps(schema)))
        with pytest.raises(ConstraintError, match="time_s"):
            engine.complete(hard)
        gate, is_held = threading.Event(), threading.Event()

        def hold() -> None:
            is_held.set()
            gate.wait()

        engine._grammars._thread.submit(hold)
        is_held.wait()
        with engine.submit(hard) as stream:
            assert engine._grammars._thread._work_queue.qsize() == 1  # it waits for its turn
            gate.set()
            with pytest.raises(ConstraintError, match="time_s"):
                stream.completions()
