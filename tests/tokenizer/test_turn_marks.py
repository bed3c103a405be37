"""The marks between turns can be read off templates that put text right before and after a content."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from learned_vocabulary import learn_byte_level, learn_pieces

from sgrt.tokenizer.chat_template import ChatTemplate
from sgrt.tokenizer.data import ScoredPieces, TokenizerData, TokenType
from sgrt.tokenizer.tokenizer import Tokenizer
from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Description, Message, Role
from sgrt_frontend.template import TurnMarks

INSTRUCTIONS = (
    "{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}"
)


def with_single_digits(pieces: ScoredPieces) -> ScoredPieces:
    """As Llama's and Gemma's pieces are: a digit is always a piece of its own."""
    kinds = (
        TokenType.UNUSED if kind == TokenType.NORMAL and len(token) > 1 and re.search(r"\d", token) else kind
        for token, kind in zip(pieces.tokens, pieces.types, strict=True)
    )
    return replace(pieces, types=tuple(kinds))


PIECES = TokenizerData(
    definition=with_single_digits(learn_pieces()),
    vocabulary_size=0,
    begin_token_ids=(),
    end_token_ids=(2,),
    chat_template=INSTRUCTIONS,
    template_tokens=(("eos_token", "</s>"),),
)


class Chats:
    """What the marks ask of a backend."""

    def __init__(self, data: TokenizerData) -> None:
        self.tokenizer = Tokenizer(data)
        self.template = ChatTemplate(INSTRUCTIONS, self.tokenizer, data.template_tokens)

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        return self.template.render(messages, add_generation_prompt=open_assistant)

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        return self.tokenizer.encode(text, special=special)

    def describe(self) -> Description:
        return Description(
            model="tiny", context_tokens=64, vocabulary_tokens=64, end_token_ids=(2,), has_chat_template=True
        )


@pytest.mark.parametrize(
    "data",
    [*(learn_byte_level().byte_level_data(pre) for pre in ("smollm", "qwen2", "llama-bpe")), PIECES],
    ids=["smollm", "qwen2", "llama-bpe", "pieces"],
)
def test_marks_that_end_in_a_space_are_found(data: TokenizerData) -> None:
    chats = Chats(data)
    marks, end = TurnMarks(cast("Backend", chats)), dict(data.template_tokens)["eos_token"]
    turns = (Role.USER, Role.ASSISTANT, Role.USER)
    written = [
        chats.tokenizer.decode(marks.before(turns[:count], role), skip_special=False)
        for count, role in enumerate(turns)
    ]
    assert written == ["[INST] ", " [/INST]", f"{end}[INST] "]
    assert chats.tokenizer.decode(marks.after(turns)) == " [/INST]"
