"""What a session goes on from is what the client saw: its tokens, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from engine_server import engine_serving
from hypothesis import given
from hypothesis import strategies as st
from scripted_engine import END, tokenizer

from sgrt.engine.scripted import Script
from sgrt.server.sessions import visible_tokens

ASK = {"role": "user", "content": "go"}
MORE = {"role": "user", "content": "and?"}
(HASH,) = tokenizer().encode("#")


def spelled_out(text: str) -> Script:
    """Says `text` byte by byte, as no encoder would, and then over and over that it ends."""
    tokens = [tokenizer().encode(character)[0] for character in text]

    def script(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        return {tokens[len(output)] if len(output) < len(tokens) else END: 30.0}

    return script


SAMPLINGS: dict[str, dict[str, object]] = {
    "whole": {},
    "stop string": {"stop": ["###"]},
    "stop string that stays": {"stop": ["###"], "include_stop_str_in_output": True},
    "stop string inside a token": {"stop": ["he"]},
    "stop token": {"stop_token_ids": [HASH]},
    "cut": {"max_tokens": 3},
    "past its end": {"ignore_eos": True, "max_tokens": 20},
    "marks shown": {"skip_special_tokens": False, "ignore_eos": True, "max_tokens": 20},
}


@pytest.mark.parametrize("reasoning_format", ["none", "on"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("said", ["the end ###they", "<think>hm</think>\n\nthe end ###they", " the end\n"])
def test_the_next_prompt_says_what_the_client_saw(said: str, sampling: str, reasoning_format: str) -> None:
    with engine_serving(spelled_out(said), reasoning_format=reasoning_format) as (client, _):
        fields = {"session_id": "s", "temperature": 0, **SAMPLINGS[sampling]}
        first = client.chat(messages=[ASK], **fields).json()["choices"][0]["message"]
        again = {"messages": [ASK, first, MORE], "return_token_ids": True, "max_tokens": 1}
        kept = client.chat(session_id="s", **again).json()["prompt_token_ids"]
        plain = client.chat(**again).json()["prompt_token_ids"]
        shown = [tokenizer().decode(tokens, skip_special=False) for tokens in (kept, plain)]
        assert shown[0] == shown[1]


def test_the_tokens_before_a_stop_string_are_kept_as_they_were_generated() -> None:
    with engine_serving(spelled_out("the end ###they")) as (client, _):
        fields = {"session_id": "s", "temperature": 0, "return_token_ids": True, "stop": ["###"]}
        first = client.chat(messages=[ASK], **fields).json()
        answer = first["choices"][0]
        again = client.chat(messages=[ASK, answer["message"], MORE], session_id="s", return_token_ids=True)
        start = [*first["prompt_token_ids"], *answer["token_ids"][: len("the end ")]]
        assert again.json()["prompt_token_ids"][: len(start)] == start


BYTES = {token: tokenizer().bytes_of((token,)) for token in range(END + 1)}


@given(st.lists(st.integers(0, END), max_size=12), st.integers(0, 40), st.booleans())
def test_the_tokens_of_a_visible_text_spell_it(tokens: list[int], length: int, is_cut: bool) -> None:
    text = b"".join(BYTES[token] for token in tokens).decode("utf-8", "replace")
    seen = text[:length] if is_cut else text
    kept = visible_tokens(tokens, seen, bytes_of=BYTES.__getitem__, encode=tokenizer().encode)
    assert tokenizer().decode(kept) == seen
