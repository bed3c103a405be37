"""Stop strings are found in the same way wherever they are looked for: search, engine, script."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgrt.engine.output_text import OutputText
from sgrt_frontend.call import Call, Chunk, SamplingParams, StopReason
from sgrt_frontend.errors import BackendError
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.stop_search import StopSearch


class Letters:
    """A decoder whose tokens are code points."""

    def feed(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))


def by_character(whole: str, stops: Sequence[str], min_tokens: int) -> tuple[str, str | None]:
    """The definition: read letter by letter; a stop string ends the text when it is complete and stops are allowed."""
    for end in range(max(1, min_tokens), len(whole) + 1):
        found = [stop for stop in stops if whole[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return whole[: end - len(longest)], longest
    return whole, None


def searched(whole: str, stops: tuple[str, ...], min_tokens: int) -> tuple[str, str | None]:
    search, shown = StopSearch(stops), ""
    for count, letter in enumerate(whole, 1):
        shown += search.feed(letter, may_stop=count >= min_tokens)
        if search.stop is not None:
            break
    return shown + search.flush(), search.stop


def by_engine(whole: str, stops: tuple[str, ...], min_tokens: int) -> tuple[str, str | None]:
    text, shown = OutputText(Letters(), stops=stops), ""
    for count, letter in enumerate(whole, 1):
        shown += text.feed((ord(letter),), may_stop=count >= min_tokens)
        if text.stop is not None:
            break
    return shown + text.finish(), text.stop


def chunks_of(reply: str, **sampling: object) -> list[Chunk]:
    backend = ScriptedBackend([reply])
    call = Call(prompt=(1,), sampling=SamplingParams(**sampling))  # type: ignore[arg-type]  # test keywords

    async def collect() -> list[Chunk]:
        return [chunk async for chunk in backend.generate(call)]

    return asyncio.run(collect())


def scripted(whole: str, stops: tuple[str, ...], min_tokens: int) -> tuple[str, str | None]:
    chunks = chunks_of(whole, stop=stops, min_tokens=min_tokens)
    finish = chunks[-1].finish
    assert finish is not None
    assert finish.usage.output_tokens == sum(len(chunk.token_ids) for chunk in chunks)
    return "".join(chunk.text for chunk in chunks), None if finish.stop is None else str(finish.stop)


_STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=3).map(tuple)


@given(st.text("abc", max_size=12), _STOPS, st.integers(0, 12))
def test_search_and_engine_follow_the_definition(whole: str, stops: tuple[str, ...], min_tokens: int) -> None:
    expected = by_character(whole, stops, min_tokens)
    assert searched(whole, stops, min_tokens) == expected
    assert by_engine(whole, stops, min_tokens) == expected


@given(
    st.text("äbc", min_size=1, max_size=12),
    st.lists(st.text("äbc", min_size=1, max_size=4), max_size=3).map(tuple),
)
def test_a_script_follows_the_definition(whole: str, stops: tuple[str, ...]) -> None:
    assert scripted(whole, stops, 0) == by_character(whole, stops, 0)


def test_of_two_stop_strings_the_one_complete_first_wins() -> None:
    for find in (searched, by_engine, scripted):
        assert find("abcdef", ("abcdef", "cd"), 0) == ("ab", "cd")


def test_a_stop_string_that_was_complete_before_stops_were_allowed_is_text() -> None:
    for find in (searched, by_engine):
        assert find("abx", ("ab", "abab"), 3) == ("abx", None)
        assert find("abab", ("ab",), 3) == ("ab", "ab")


def test_a_script_stops_at_stop_tokens() -> None:
    backend = ScriptedBackend()
    tokens = backend.encode("one two three")
    chunks = chunks_of("one two three", stop_token_ids=(tokens[2],))
    finish = chunks[-1].finish
    assert finish is not None and (finish.reason, finish.stop) == (StopReason.STOP_TOKEN, tokens[2])
    assert [token for chunk in chunks for token in chunk.token_ids] == list(tokens[:2])
    chunks = chunks_of("one two three", stop_token_ids=(tokens[2],), include_stop=True)
    assert [token for chunk in chunks for token in chunk.token_ids] == list(tokens[:3])
    chunks = chunks_of("one two three", stop_token_ids=(tokens[2],), min_tokens=4)
    assert [token for chunk in chunks for token in chunk.token_ids] == list(tokens)


def test_a_script_does_not_end_before_min_tokens() -> None:
    with pytest.raises(BackendError, match="min_tokens is 50"):
        chunks_of("short", min_tokens=50)
