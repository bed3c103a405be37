"""One prompt has one tokenization, whichever way it comes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from learned_vocabulary import learn_pieces
from scripted_engine import scripted_engine
from server_client import Client, listening

import sgrt
from sgrt.backend.http import HttpBackend
from sgrt.cli.run import _prompt
from sgrt.engine.engine import Engine
from sgrt.engine.scripted import continue_with
from sgrt.llm.llm_tokenizer import LLMTokenizer
from sgrt.server.app import create_app
from sgrt.server.config import ServerConfig
from sgrt.tokenizer.chat_template import ChatTemplate
from sgrt.tokenizer.data import TokenizerData
from sgrt.tokenizer.tokenizer import Tokenizer

BEGIN, END = 1, 2
TEXTS = ["quick fox", " quick", "a</s>", "</s>lazy dogs</s> brown", "<s>quick", "", "ß</s\u2581"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A tokenizer of the SentencePiece kind, which puts a space before every text."""
    data = TokenizerData(
        definition=replace(learn_pieces(), has_space_prefix=True),
        vocabulary_size=0,
        begin_token_ids=(BEGIN,),
        end_token_ids=(END,),
        chat_template=None,
        template_tokens=(),
    )
    return Tokenizer(data)


@pytest.fixture(scope="module")
def engine(tokenizer: Tokenizer) -> Iterator[Engine]:
    with scripted_engine(continue_with((), end_token_id=END), speaks=tokenizer) as engine:
        yield engine


@pytest.fixture(scope="module")
def client(engine: Engine) -> Client:
    return Client(create_app(engine, ServerConfig(model_names=("stub",))))


@pytest.fixture(scope="module")
def remote(engine: Engine) -> Iterator[HttpBackend]:
    app = create_app(engine, ServerConfig(model_names=("stub",)))
    with listening(app) as url, HttpBackend(url) as backend:
        yield backend


@pytest.mark.parametrize("text", TEXTS)
def test_a_whole_prompt_is_read_alike_everywhere(
    text: str, tokenizer: Tokenizer, engine: Engine, client: Client
) -> None:
    expected = LLMTokenizer(tokenizer, ChatTemplate(None, tokenizer)).encode(text)
    own = tokenizer.encode(text, special=True, is_start=True)
    assert expected == ([] if text.startswith("<s>") else [BEGIN]) + list(own)
    assert expected.count(BEGIN) == 1
    answer = client.complete(prompt=text, return_token_ids=True, max_tokens=1, echo=True).json()["choices"][0]
    assert answer["prompt_token_ids"] == expected
    assert answer["text"].startswith(text)
    many = client.complete(prompt=[text, text], return_token_ids=True, max_tokens=1).json()["choices"]
    assert [choice["prompt_token_ids"] for choice in many] == [expected, expected]
    assert client.post("/tokenize", {"prompt": text}).json()["tokens"] == expected
    assert list(_prompt(engine, text, system="", is_raw=True)) == expected


@pytest.mark.parametrize("text", TEXTS)
def test_a_prompt_without_begin_tokens_or_marks_is_read_alike_too(
    text: str, tokenizer: Tokenizer, client: Client
) -> None:
    for special in (True, False):
        fields = {"prompt": text, "special": special, "add_special_tokens": False}
        expected = list(tokenizer.encode(text, special=special, is_start=True))
        assert client.post("/tokenize", fields).json()["tokens"] == expected
        if expected:
            answer = client.complete(**fields, return_token_ids=True, max_tokens=1).json()["choices"][0]
            assert answer["prompt_token_ids"] == expected


@sgrt.function
def says(s: sgrt.State, text: str) -> None:
    s += text
    s += sgrt.gen("more", max_tokens=1)
    s += text + sgrt.gen("most", max_tokens=1)


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_programs_read_their_text_as_text_and_open_a_prompt_as_the_model_was_trained(
    text: str, tokenizer: Tokenizer, engine: Engine, remote: HttpBackend
) -> None:
    for backend in (engine, remote):
        assert backend.encode(text, special=True, is_start=True) == tokenizer.encode(
            text, special=True, is_start=True
        )
        first, second = says.on(backend).run(text).trace.ordered()
        start = (BEGIN, *tokenizer.encode(text, is_start=True))
        assert first.before.flat() == start
        assert second.before.flat() == (*start, *tokenizer.encode(text))


@sgrt.function
def healed(s: sgrt.State, text: str) -> None:
    s += text + sgrt.gen("more", max_tokens=20, heal=True)


def test_the_text_that_opens_a_prompt_is_healed_as_any_other(tokenizer: Tokenizer) -> None:
    text = "quick fo"
    script = continue_with(tokenizer.encode("fox"), end_token_id=END)
    with scripted_engine(script, speaks=tokenizer) as engine:
        state = healed.on(engine).run(text)
    (call,) = state.trace.ordered()
    assert state.text().startswith(text)
    assert len(call.before.flat()) < 1 + len(tokenizer.encode(text, is_start=True))
