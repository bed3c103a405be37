"""A tokenizer file is one vocabulary, whoever reads it."""

from __future__ import annotations

import json

import pytest
from tiny_models import tiny_tokenizer
from tokenizers import AddedToken, decoders, models, normalizers
from tokenizers import Tokenizer as Reference

from sgrt.tokenizer.data import TokenizerData, TokenizerJson
from sgrt.tokenizer.tokenizer import Tokenizer
from sgrt_grammars.vocabulary import Vocabulary


def byte_level() -> str:
    reference = Reference.from_str(tiny_tokenizer().to_str())
    reference.add_tokens(["<tool_call>", "[TOOL]", "word", "a\u2581b"])
    reference.add_special_tokens([AddedToken("<|mark|>", special=True)])
    return str(reference.to_str())


def sentencepiece() -> str:
    vocabulary = {"<unk>": 0, "</s>": 1, "<0xE2>": 2, "\u2581": 3, "a": 4, "\u2581a": 5, "<0x0A>": 6}
    reference = Reference(models.BPE(vocabulary, [("\u2581", "a")], unk_token="<unk>", byte_fallback=True))
    reference.normalizer = normalizers.Replace(" ", "\u2581")
    reference.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    reference.add_special_tokens(["<unk>", "</s>"])
    reference.add_tokens(["<tool_call>", "b\u2581c", "<mask>"])
    return str(reference.to_str())


@pytest.mark.parametrize("text", [byte_level(), sentencepiece()], ids=["byte level", "pieces"])
def test_the_vocabulary_of_a_file_is_the_one_that_is_served(text: str) -> None:
    read = Vocabulary.from_tokenizer_json(text)
    served = Tokenizer(
        TokenizerData(
            definition=TokenizerJson(text=text),
            vocabulary_size=0,
            begin_token_ids=(),
            end_token_ids=read.end_token_ids,
            chat_template=None,
            template_tokens=(),
        )
    ).vocabulary()
    assert read.tokens == served.tokens
    assert read.special_tokens == served.special_tokens
    assert "<tool_call>" not in read.special_tokens
    assert json.loads(text)["added_tokens"]
