"""Vocabularies: what tokens spell, read from tokenizer files and kept in a prefix tree."""

from __future__ import annotations

import json

import pytest

from sgrt_grammars import Vocabulary
from sgrt_grammars.trie import TokenTrie


def byte_level_file() -> str:
    vocab = {"a": 0, "\u0120b": 1, "\u00c3\u00a9": 2, "<|im_end|>": 3, "<tool_call>": 4, "\u010a": 5}
    added = [
        {"id": 3, "content": "<|im_end|>", "special": True},
        {"id": 4, "content": "<tool_call>", "special": False},
    ]
    document = {"model": {"vocab": vocab}, "added_tokens": added, "decoder": {"type": "ByteLevel"}}
    return json.dumps(document)


def test_byte_level_pieces_spell_bytes() -> None:
    vocabulary = Vocabulary.from_tokenizer_json(byte_level_file(), size=8)
    assert vocabulary.tokens == (b"a", b" b", "é".encode(), None, b"<tool_call>", b"\n", None, None)
    assert vocabulary.end_token_ids == (3,)
    assert vocabulary.special_tokens == {"<|im_end|>": 3}


def test_sentencepiece_pieces_spell_spaces_and_fallback_bytes() -> None:
    document = {
        "model": {"vocab": [["<unk>", 0], ["\u2581the", -1], ["<0xE2>", -2], ["</s>", 0]]},
        "added_tokens": [
            {"id": 0, "content": "<unk>", "special": True},
            {"id": 3, "content": "</s>", "special": True},
        ],
        "decoder": {"type": "Sequence"},
    }
    vocabulary = Vocabulary.from_tokenizer_json(json.dumps(document))
    assert vocabulary.tokens == (None, b" the", b"\xe2", None)
    assert vocabulary.end_token_ids == (3,)


def test_a_file_without_a_known_end_token_asks_for_one() -> None:
    document = {"model": {"vocab": {"a": 0}}, "decoder": {"type": "ByteLevel"}}
    with pytest.raises(ValueError, match="end_token_ids"):
        Vocabulary.from_tokenizer_json(json.dumps(document))
    assert Vocabulary.from_tokenizer_json(json.dumps(document), end_token_ids=[0]).end_token_ids == (0,)


def test_end_tokens_spell_no_text() -> None:
    vocabulary = Vocabulary([b"a", b"</s>"], [1])
    assert vocabulary.text(1) is None
    assert vocabulary.text(7) is None
    assert vocabulary.trie.tokens.tolist() == [0]


def test_the_key_tells_vocabularies_apart_by_content() -> None:
    assert Vocabulary([b"a", None], [1]).key == Vocabulary([b"a", None], [1]).key
    assert Vocabulary([b"a", None], [1]).key != Vocabulary([b"b", None], [1]).key


def test_ids_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        Vocabulary([b"a"], [1])


def test_the_trie_is_in_depth_first_order() -> None:
    trie = TokenTrie([(b"ab", 0), (b"a", 1), (b"b", 2), (b"ab", 3)])
    assert bytes(trie.byte) == b"abb"
    assert trie.skip.tolist() == [2, 2, 3]
    assert trie.depth.tolist() == [1, 2, 1]
    assert trie.tokens.tolist() == [1, 0, 3, 2]
    assert trie.token_start.tolist() == [0, 1, 3, 4]
    assert trie.longest_match(b"xab", 1) == (2, 0)
    assert trie.longest_match(b"x", 0) is None
