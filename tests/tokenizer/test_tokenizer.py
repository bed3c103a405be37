"""Text to tokens and back: equal to the reference tokenizers, and safe from look-alikes of special tokens."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from learned_vocabulary import MARKS, Learned
from texts import TEXTS, any_text
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Reference
from transformers import GPT2Tokenizer, Qwen2Tokenizer

from sgrt.errors import CorruptModel, UnsupportedModel
from sgrt.tokenizer.data import ScoredPieces, TokenizerData, TokenizerJson, TokenType
from sgrt.tokenizer.stream_decoder import StreamDecoder
from sgrt.tokenizer.tokenizer import Tokenizer


def data_of(definition: ScoredPieces | TokenizerJson, size: int = 0) -> TokenizerData:
    return TokenizerData(
        definition=definition,
        vocabulary_size=size,
        begin_token_ids=(1,),
        end_token_ids=(2,),
        chat_template=None,
        template_tokens=(),
    )


def smollm_reference(learned: Learned) -> Reference:
    """How SmolLM2's tokenizer.json is built."""
    reference = Reference(models.BPE(learned.vocabulary, list(learned.merges)))
    reference.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    reference.decoder = decoders.ByteLevel()
    reference.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    return reference


def merges_argument(learned: Learned) -> Any:  # noqa: ANN401
    return list(learned.merges)  # pairs: the class says list[str] but hands them on to `tokenizers`


def gpt2_reference(learned: Learned) -> Reference:
    return GPT2Tokenizer(learned.vocabulary, merges_argument(learned)).backend_tokenizer


def qwen2_reference(learned: Learned) -> Reference:
    return Qwen2Tokenizer(learned.vocabulary, merges_argument(learned)).backend_tokenizer


@pytest.mark.parametrize(
    ("pre", "make_reference"),
    [("smollm", smollm_reference), ("gpt-2", gpt2_reference), ("qwen2", qwen2_reference)],
)
def test_byte_level_tokens_from_gguf_equal_those_of_the_reference(
    pre: str, make_reference: Callable[[Learned], Reference], byte_level: Learned
) -> None:
    tokenizer, reference = Tokenizer(byte_level.byte_level_data(pre)), make_reference(byte_level)
    reference.encode_special_tokens = True

    @given(any_text())
    def same(text: str) -> None:
        assert list(tokenizer.encode(text)) == reference.encode(text, add_special_tokens=False).ids

    for text in TEXTS:
        same.hypothesis.inner_test(text)  # type: ignore[attr-defined]  # hypothesis sets it
    same()


def test_special_tokens_in_template_text_equal_those_of_the_reference(byte_level: Learned) -> None:
    tokenizer, reference = Tokenizer(byte_level.byte_level_data("smollm")), smollm_reference(byte_level)

    @given(any_text())
    def same(text: str) -> None:
        assert list(tokenizer.encode(text, special=True)) == reference.encode(text).ids

    same()


def test_the_tokenizer_of_a_tokenizer_json_equals_the_file(byte_level: Learned) -> None:
    reference = smollm_reference(byte_level)
    tokenizer = Tokenizer(data_of(TokenizerJson(text=reference.to_str())))
    from_gguf = Tokenizer(byte_level.byte_level_data("smollm"))
    assert tokenizer.all_token_bytes == from_gguf.all_token_bytes
    assert tokenizer.special_tokens == from_gguf.special_tokens

    @given(any_text())
    def same(text: str) -> None:
        assert list(tokenizer.encode(text, special=True)) == reference.encode(text).ids
        assert tokenizer.encode(text) == from_gguf.encode(text)

    same()


def test_text_of_users_never_becomes_a_special_token(byte_level: Learned) -> None:
    tokenizer = Tokenizer(byte_level.byte_level_data("smollm"))

    @given(any_text())
    def never(text: str) -> None:
        assert not set(tokenizer.encode(text)) & set(tokenizer.special_tokens.values())
        assert tokenizer.decode(tokenizer.encode(text)) == text

    never()
    assert set(tokenizer.encode("<|im_end|>", special=True)) <= set(tokenizer.special_tokens.values())


def test_special_tokens_are_left_out_of_text_or_spelled(byte_level: Learned) -> None:
    tokenizer = Tokenizer(byte_level.byte_level_data("smollm"))
    tokens = tokenizer.encode("<|im_start|>hi<|im_end|>", special=True)
    assert tokenizer.decode(tokens) == "hi"
    assert tokenizer.decode(tokens, skip_special=False) == "<|im_start|>hi<|im_end|>"


def test_the_vocabulary_is_as_wide_as_the_model(byte_level: Learned) -> None:
    tokenizer = Tokenizer(byte_level.byte_level_data("smollm", vocabulary_size=1024))
    assert tokenizer.size == len(tokenizer.all_token_bytes) == tokenizer.vocabulary().size == 1024
    assert tokenizer.token_bytes(1023) is None
    assert tokenizer.token_bytes(5000) is None
    assert tokenizer.token_bytes(-1) is None
    assert tokenizer.decode([1023, 5000, *tokenizer.encode("a")]) == "a"


def test_every_byte_has_a_token_and_special_tokens_have_no_bytes(byte_level: Learned) -> None:
    tokenizer = Tokenizer(byte_level.byte_level_data("smollm"))
    assert {bytes([byte]) for byte in range(256)} <= set(tokenizer.all_token_bytes)
    assert all(tokenizer.token_bytes(index) is None for index in tokenizer.special_tokens.values())
    assert tokenizer.vocabulary().end_token_ids == tuple(sorted(tokenizer.end_token_ids))


def test_a_way_of_cutting_text_that_is_unknown_is_refused_with_those_that_are_known(
    byte_level: Learned,
) -> None:
    with pytest.raises(UnsupportedModel, match=r"'runes'; known: .*smollm"):
        Tokenizer(byte_level.byte_level_data("runes"))


def test_merges_that_do_not_fit_the_vocabulary_are_refused(byte_level: Learned) -> None:
    data = byte_level.byte_level_data("smollm")
    assert not isinstance(data.definition, ScoredPieces | TokenizerJson)
    with pytest.raises(CorruptModel, match="merges"):
        Tokenizer(replace(data, definition=replace(data.definition, merges=("nowhere near",))))


def test_a_stream_is_never_cut_inside_a_character_and_equals_the_whole(byte_level: Learned) -> None:
    tokenizer = Tokenizer(byte_level.byte_level_data("smollm"))
    some_tokens = st.one_of(
        any_text().map(lambda text: list(tokenizer.encode(text, special=True))),
        st.lists(st.integers(0, tokenizer.size - 1), max_size=20),
    )

    @given(some_tokens, st.booleans(), st.data())
    def equal(tokens: list[int], skip_special: bool, data: st.DataObject) -> None:
        decoder = StreamDecoder(tokenizer, skip_special=skip_special)
        pieces, rest = [], tokens
        while rest:
            size = data.draw(st.integers(1, len(rest)))
            pieces.append(decoder.feed(rest[:size]))
            rest = rest[size:]
        raw = tokenizer.bytes_of(tokens, skip_special=skip_special)
        assert "".join(pieces) == codecs.getincrementaldecoder("utf-8")("replace").decode(raw)

    equal()
    decoder = StreamDecoder(tokenizer)
    tokens = tokenizer.encode("👩")
    assert len(tokens) > 1
    assert [decoder.feed([token]) for token in tokens] == [""] * (len(tokens) - 1) + ["👩"]


class SentencePieceByHand:
    """SentencePiece's own procedure: cut at user-defined pieces, then join the best-scoring neighbours, leftmost first."""

    def __init__(self, pieces: ScoredPieces) -> None:
        rows = list(zip(pieces.tokens, pieces.types, pieces.scores, strict=True))
        self._ids = {piece: index for index, piece in enumerate(pieces.tokens)}
        self._scores = {piece: score for piece, kind, score in rows if kind == TokenType.NORMAL}
        self._fixed = sorted(
            (piece for piece, kind, _ in rows if kind == TokenType.USER_DEFINED), key=len, reverse=True
        )

    def encode(self, text: str) -> list[int]:
        text, ids, run = text.replace(" ", "▁"), list[int](), ""
        while text:
            fixed = next((piece for piece in self._fixed if text.startswith(piece)), None)
            if fixed is None:
                run, text = run + text[0], text[1:]
                continue
            ids += [*self._joined(run), self._ids[fixed]]
            run, text = "", text[len(fixed) :]
        return ids + self._joined(run)

    def _joined(self, run: str) -> list[int]:
        parts = list(run)
        while True:
            joins = [
                (-self._scores[left + right], index)
                for index, (left, right) in enumerate(itertools.pairwise(parts))
                if left + right in self._scores
            ]
            if not joins:
                return [token for part in parts for token in self._tokens(part)]
            index = min(joins)[1]
            parts[index : index + 2] = [parts[index] + parts[index + 1]]

    def _tokens(self, part: str) -> list[int]:
        if part in self._scores:
            return [self._ids[part]]
        return [self._ids[f"<0x{byte:02X}>"] for byte in part.encode()]


def test_pieces_from_gguf_are_joined_as_sentencepiece_joins_them(scored_pieces: ScoredPieces) -> None:
    tokenizer, by_hand = Tokenizer(data_of(scored_pieces)), SentencePieceByHand(scored_pieces)

    @given(any_text())
    def same(text: str) -> None:
        assert list(tokenizer.encode(text)) == by_hand.encode(text)

    for text in TEXTS:
        same.hypothesis.inner_test(text)  # type: ignore[attr-defined]  # hypothesis sets it
    same()


def test_pieces_spell_spaces_and_single_bytes(scored_pieces: ScoredPieces) -> None:
    tokenizer = Tokenizer(data_of(scored_pieces))
    assert tokenizer.token_bytes(scored_pieces.tokens.index("▁▁")) == b"  "
    assert tokenizer.token_bytes(scored_pieces.tokens.index("<0xE2>")) == b"\xe2"
    assert tokenizer.token_bytes(0) is None
    assert tokenizer.token_id("<tool_call>") in tokenizer.encode("a <tool_call> b")

    @given(any_text().filter(lambda text: "▁" not in text))
    def round_trip(text: str) -> None:
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert not {0, 1, 2} & set(tokenizer.encode(text))

    round_trip()


def test_a_space_is_put_before_the_start_of_a_prompt_alone(scored_pieces: ScoredPieces) -> None:
    tokenizer = Tokenizer(data_of(replace(scored_pieces, has_space_prefix=True)))
    assert tokenizer.encode("quick fox", is_start=True) == tokenizer.encode(" quick fox")
    assert tokenizer.decode(tokenizer.encode("quick fox")) == "quick fox"
    assert tokenizer.encode("", is_start=True) == ()


@pytest.mark.parametrize("kind", ["normalizer", "first", "always"])
def test_the_space_prefix_of_a_tokenizer_json_is_kept_for_the_start_of_a_prompt(
    kind: str, scored_pieces: ScoredPieces
) -> None:
    vocabulary = {piece: index for index, piece in enumerate((*scored_pieces.tokens, "la", "▁la"))}
    merges = [("l", "a"), ("▁", "la")]
    reference = Reference(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    reference.add_special_tokens([AddedToken("</s>", special=True, normalized=False)])
    if kind == "normalizer":
        reference.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        reference.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind, split=False)
    tokenizer = Tokenizer(data_of(TokenizerJson(text=reference.to_str())))
    for text in ("lazy dogs", " lazy", "brown fox la la", "lazy</s>lazy</s> la"):
        assert list(tokenizer.encode(text, is_start=True, special=True)) == reference.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_special_token_swallows_the_spaces_its_file_says(byte_level: Learned) -> None:
    reference = smollm_reference(byte_level)
    reference.add_special_tokens(
        [AddedToken("<|sep|>", special=True, normalized=False, rstrip=True, lstrip=True)]
    )
    tokenizer = Tokenizer(data_of(TokenizerJson(text=reference.to_str())))
    text = "a  <|sep|> \n b <|im_end|> c<|sep|>"
    assert list(tokenizer.encode(text, special=True)) == reference.encode(text).ids


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            Reference(models.WordPiece({"a": 0}, unk_token="a")),
            "unknown model 'WordPiece'; known: BPE, Unigram",
        ),
        (Reference(models.BPE({"a": 0}, [])), "unknown decoder BPEDecoder; known: .*ByteLevel"),
    ],
)
def test_a_tokenizer_json_whose_tokens_cannot_be_turned_into_bytes_is_refused(
    reference: Reference, message: str
) -> None:
    reference.decoder = decoders.BPEDecoder()
    with pytest.raises(UnsupportedModel, match=message):
        Tokenizer(data_of(TokenizerJson(text=reference.to_str())))
