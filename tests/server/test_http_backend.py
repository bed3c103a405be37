"""HttpBackend against a server: what a program gets is what the backend behind the server said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_client import END, PieceBackend, listening

import sgrt
from sgrt.backend.call_codec import (
    call_to_json,
    chunk_from_json,
    chunk_to_json,
    plan_from_json,
    sampling_from_json,
    sampling_to_json,
)
from sgrt.backend.constraint_codec import from_json, to_json
from sgrt.backend.http import HttpBackend
from sgrt.server.app import create_app
from sgrt.server.config import ServerConfig
from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Call, CallPlan, Chunk, Message, Role, SamplingParams, ScoreTerms, Share
from sgrt_frontend.errors import (
    BackendError,
    ConstraintError,
    ContextOverflow,
    DeadlineExceeded,
    InvalidRequest,
    Overloaded,
    SgrtError,
)
from sgrt_grammars.constraint import (
    AnyText,
    Choice,
    Constraint,
    ContextFree,
    GrammarDialect,
    JsonObject,
    JsonSchema,
    OneOf,
    PropertyOrder,
    Regex,
    RegexDialect,
    Repeat,
    Sequence,
    StructuralTag,
    Tag,
    Text,
    Token,
    Whitespace,
)

LEAVES: list[Constraint] = [
    JsonSchema(text='{"type": "string"}', whitespace=Whitespace.FLEXIBLE, order=PropertyOrder.ANY),
    JsonObject(whitespace=Whitespace.FLEXIBLE),
    Regex(pattern="a+", dialect=RegexDialect.ECMA),
    Choice(options=("a", "b")),
    ContextFree(text="start: 'a'", dialect=GrammarDialect.EBNF, start="start"),
    Token(token_id=7),
    Text(text="x"),
    AnyText(without=("</end>",)),
]
CONSTRAINTS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: Sequence(parts=tuple(parts)))
        | st.lists(inner, max_size=3).map(lambda options: OneOf(options=tuple(options)))
        | st.builds(
            lambda body, low, high: Repeat(body=body, minimum=low, maximum=high, separator=","),
            inner,
            st.integers(0, 3),
            st.none() | st.integers(3, 5),
        )
        | st.builds(
            lambda body, required: StructuralTag(
                triggers=("<a",),
                tags=(Tag(begin=Text(text="<a>"), body=body, end=Text(text="</a>")),),
                required=required,
            ),
            inner,
            st.booleans(),
        )
    ),
    max_leaves=6,
)


@given(constraint=CONSTRAINTS)
def test_a_constraint_survives_the_wire(constraint: Constraint) -> None:
    assert from_json(to_json(constraint)) == constraint


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("text", "constraint"),
        ({"type": "Nope"}, "constraint"),
        ({"type": "Regex"}, "constraint"),
        ({"type": "Regex", "pattern": 3}, "constraint.pattern"),
        ({"type": "Regex", "pattern": "a", "flags": "i"}, "constraint.flags"),
        ({"type": "Regex", "pattern": "a", "dialect": "perl"}, "constraint.dialect"),
        ({"type": "Token", "token_id": -1}, "constraint.token_id"),
        ({"type": "Token", "token_id": True}, "constraint.token_id"),
        ({"type": "Sequence", "parts": [{"type": "Text", "text": 1}]}, "constraint.parts[0].text"),
    ],
)
def test_a_wrong_constraint_says_where(value: object, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        from_json(value)
    assert caught.value.param == param


def test_a_constraint_nested_without_end_is_refused() -> None:
    value: dict[str, object] = {"type": "Text", "text": "x"}
    for _ in range(100):
        value = {"type": "Sequence", "parts": [value]}
    with pytest.raises(InvalidRequest, match="nested deeper"):
        from_json(value)


def test_sampling_parameters_survive_the_wire() -> None:
    sampling = SamplingParams(
        max_tokens=5,
        temperature=0.5,
        logit_bias=((1, 2.0),),
        stop=("a", "b"),
        stop_token_ids=(3,),
        seed=1,
        n=2,
    )
    assert sampling_from_json(sampling_to_json(sampling)) == sampling
    for wrong in ({"temperature": "hot"}, {"nope": 1}, {"top_p": 2.0}, {"stop": [1]}):
        with pytest.raises(InvalidRequest):
            sampling_from_json(wrong)


async def gathered(chunks: AsyncIterator[Chunk]) -> list[Chunk]:
    return [chunk async for chunk in chunks]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[PieceBackend, HttpBackend]]:
    backend = PieceBackend(pieces=["Hel", "lo ", "wörld", "!"], cached_tokens=3)
    with (
        listening(create_app(backend, ServerConfig())) as url,
        HttpBackend(url) as remote,
    ):
        yield backend, remote


def test_it_is_a_backend(served: tuple[PieceBackend, HttpBackend]) -> None:
    local, remote = served
    protocol: Backend = remote
    assert protocol.describe() == local.describe()
    assert protocol.encode("héllo") == local.encode("héllo")
    assert protocol.decode((72, 105, END)) == "Hi"
    assert protocol.begin_tokens() == ()
    messages = [Message(role=Role.USER, content="hi")]
    assert protocol.render(messages, open_assistant=True) == local.render(messages, open_assistant=True)
    assert protocol.spelling().bytes_of((65, END, 66)) == b"AB"


@settings(deadline=None, max_examples=15)
@given(
    n=st.integers(1, 3),
    max_tokens=st.none() | st.integers(1, 5),
    stop=st.lists(st.sampled_from(["lo", "!"]), max_size=2),
    logprobs=st.none() | st.integers(0, 3),
    constraint=st.none() | CONSTRAINTS,
)
def test_its_chunks_are_those_of_the_backend_behind_it(
    served: tuple[PieceBackend, HttpBackend],
    n: int,
    max_tokens: int | None,
    stop: list[str],
    logprobs: int | None,
    constraint: Constraint | None,
) -> None:
    local, remote = served
    sampling = SamplingParams(n=n, max_tokens=max_tokens, stop=tuple(stop), logprobs=logprobs)
    call = Call(
        prompt=(1, 2, 3), sampling=sampling, constraint=constraint, priority=2, label="here", interval_s=0.5
    )

    async def both() -> tuple[list[Chunk], list[Chunk]]:
        return await gathered(remote.generate(call)), await gathered(local.generate(call))

    there, here = asyncio.run(both())
    assert there == here
    assert local.calls[-2] == local.calls[-1] == call


def test_scores_come_through(served: tuple[PieceBackend, HttpBackend]) -> None:
    local, remote = served

    async def both() -> None:
        assert await remote.score((1,), [(2, 3), (4,)]) == await local.score((1,), [(2, 3), (4,)])

    asyncio.run(both())


@pytest.mark.parametrize(
    "failure",
    [
        InvalidRequest("wrong", param="sampling.top_p"),
        ConstraintError("cannot", param="constraint"),
        ContextOverflow("long", param="token_ids"),
        Overloaded("full", retry_after_s=0.5),
        DeadlineExceeded("late"),
        BackendError("broken"),
    ],
)
def test_failures_are_the_same_exceptions(failure: SgrtError) -> None:
    backend = PieceBackend(failure=failure)
    with listening(create_app(backend, ServerConfig())) as url, HttpBackend(url, patience_s=0.0) as remote:
        with pytest.raises(type(failure)) as caught:
            asyncio.run(gathered(remote.generate(Call(prompt=(1,)))))
        assert str(caught.value) == str(failure)
        if isinstance(failure, Overloaded):
            assert isinstance(caught.value, Overloaded)
            assert caught.value.retry_after_s == failure.retry_after_s


def test_a_server_that_is_not_there_is_named() -> None:
    with HttpBackend("http://127.0.0.1:9") as remote, pytest.raises(BackendError, match=r"127\.0\.0\.1:9"):
        remote.describe()


def test_chunks_survive_the_wire() -> None:
    backend = PieceBackend()
    call = Call(prompt=(1,), sampling=SamplingParams(logprobs=2))
    chunks = asyncio.run(gathered(backend.generate(call)))
    assert [chunk_from_json(chunk_to_json(chunk)) for chunk in chunks] == chunks
    assert call_to_json(call)["token_ids"] == [1]
    with pytest.raises(BackendError):
        chunk_from_json({"token_ids": [1]})


def test_hints_about_other_calls_reach_the_backend(served: tuple[PieceBackend, HttpBackend]) -> None:
    local, remote = served
    plan = CallPlan(shares=(Share(name="a", num_tokens=3, uses=2),), path_s=1.5)

    async def run() -> None:
        async for _ in remote.generate(Call(prompt=(65, 66, 67), plan=plan)):
            pass

    asyncio.run(run())
    assert local.calls[-1].plan == plan
    asyncio.run(remote.score((65, 66), [(67,)], ScoreTerms(plan=plan)))
    assert local.score_terms[-1] == ScoreTerms(plan=plan)


@sgrt.function
def rated(s: sgrt.State, text: str) -> None:
    s += "Is this good or bad? A word, please. "
    s += text + ": " + sgrt.select("rating", ["good", "bad"], all_spellings=False)
    s += sgrt.gen("why", max_tokens=2)


def test_the_calls_and_selections_of_a_batch_carry_what_its_plan_knows(
    served: tuple[PieceBackend, HttpBackend],
) -> None:
    local, remote = served
    local.score_terms.clear()
    rated.on(remote).run_batch([("one",), ("two",)])
    for plan in (*(terms.plan for terms in local.score_terms), local.calls[-1].plan, local.calls[-2].plan):
        assert plan is not None and plan.shares and plan.path_s > 0
    assert len(local.score_terms) == 2


@sgrt.function
def weighed(s: sgrt.State) -> None:
    s += "Yes or no? " + sgrt.select("answer", ["yes", "no"], all_spellings=False)
    s += sgrt.gen("why", max_tokens=2)
    s.score([" yes"])
    s.prompt_logprobs()


def test_the_priority_of_a_program_reaches_the_backend_with_all_that_it_asks(
    served: tuple[PieceBackend, HttpBackend],
) -> None:
    local, remote = served
    local.score_terms.clear()
    weighed.on(remote).with_options(priority=3).run()
    assert [terms.priority for terms in local.score_terms] == [3, 3, 3]
    assert local.calls[-1].priority == 3


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({"shares": [{"name": "a", "num_tokens": 0, "uses": 1}]}, "plan.shares.num_tokens"),
        ({"path_s": -1}, "plan.path_s"),
        ({"shares": 7}, "plan.shares"),
    ],
)
def test_wrong_hints_say_where(value: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan_from_json(value)
    assert caught.value.param == param


def test_scores_of_nothing_are_nothing_on_both_sides(served: tuple[PieceBackend, HttpBackend]) -> None:
    _, remote = served
    assert asyncio.run(remote.score((1,), [])) == []
    assert [score.logprobs for score in asyncio.run(remote.score((1,), [()]))] == [()]
