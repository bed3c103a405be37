"""Builds the parts of a tokenizer from its definition."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import cast

from tokenizers import AddedToken, models, normalizers
from tokenizers import Tokenizer as Merger

from sgrt.errors import CorruptModel, UnsupportedModel
from sgrt.tokenizer.data import ByteLevelBpe, ScoredPieces, TokenizerJson, TokenType
from sgrt.tokenizer.parts import SpacePrefix, TokenizerParts
from sgrt.tokenizer.pieces import merges_of
from sgrt.tokenizer.splitting import SPLITTINGS
from sgrt_grammars.token_bytes import SPACE, byte_level_bytes, piece_bytes

_Spell = Callable[[str], bytes]
_MODELS = ("BPE", "Unigram")
_DECODERS = ("Sequence", "ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace")
_METASPACE_SCHEMES = {"always": SpacePrefix.UNLESS_THERE, "first": SpacePrefix.FIRST_UNLESS_THERE}
_TEXT_TYPES = (TokenType.NORMAL, TokenType.BYTE)


def build_parts(definition: ByteLevelBpe | ScoredPieces | TokenizerJson) -> TokenizerParts:
    """The parts of the tokenizer that `definition` describes.

    Raises:
        UnsupportedModel: it asks for something unknown; the message lists what is known.
        CorruptModel: it contradicts itself.
    """
    match definition:
        case ByteLevelBpe():
            return _from_byte_level(definition)
        case ScoredPieces():
            return _from_pieces(definition)
        case TokenizerJson():
            return _from_json(definition)


def _from_byte_level(definition: ByteLevelBpe) -> TokenizerParts:
    splitting = SPLITTINGS.get(definition.pre)
    if splitting is None:
        raise UnsupportedModel(
            f"the tokenizer cuts text in the unknown way {definition.pre!r}; known: {', '.join(SPLITTINGS)}"
        )
    vocabulary = _vocabulary(definition.tokens, definition.types)
    merges = [cast("tuple[str, str]", tuple(merge.split(" ", 1))) for merge in definition.merges]
    try:
        model = models.BPE(vocabulary, merges, ignore_merges=splitting.takes_whole_words)
    except Exception as error:  # the library raises nothing narrower
        raise CorruptModel(f"the tokenizer's merges do not fit its vocabulary: {error}") from error
    merger = Merger(model)
    normalizer = splitting.normalizer()
    if normalizer is not None:
        merger.normalizer = normalizer
    merger.pre_tokenizer = splitting.pre_tokenizer()
    special = _add_tokens(merger, definition.tokens, definition.types, is_normalized=False)
    return TokenizerParts(
        merger=merger,
        token_bytes=_known_bytes(definition.tokens, definition.types, byte_level_bytes, str.encode),
        special_tokens=special,
        space_prefix=SpacePrefix.NEVER,
    )


def _from_pieces(definition: ScoredPieces) -> TokenizerParts:
    vocabulary = _vocabulary(definition.tokens, definition.types)
    mergeable = [
        (token, score)
        for token, score, kind in zip(definition.tokens, definition.scores, definition.types, strict=True)
        if kind == TokenType.NORMAL
    ]
    merger = Merger(
        models.BPE(
            vocabulary,
            merges_of(mergeable),
            unk_token=definition.tokens[definition.unknown_token_id],
            fuse_unk=True,
            byte_fallback=TokenType.BYTE in definition.types,
        )
    )
    merger.normalizer = normalizers.Replace(" ", SPACE)
    # User-defined pieces are found in the text after its spaces became U+2581, as SentencePiece does.
    special = _add_tokens(merger, definition.tokens, definition.types, is_normalized=True)
    return TokenizerParts(
        merger=merger,
        token_bytes=_known_bytes(definition.tokens, definition.types, piece_bytes, piece_bytes),
        special_tokens=special,
        space_prefix=SpacePrefix.ALWAYS if definition.has_space_prefix else SpacePrefix.NEVER,
    )


def _vocabulary(tokens: Sequence[str], types: Sequence[int]) -> dict[str, int]:
    return {
        token: index
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind != TokenType.UNUSED
    }


def _add_tokens(
    merger: Merger, tokens: Sequence[str], types: Sequence[int], *, is_normalized: bool
) -> dict[int, AddedToken]:
    """Tell the merger which tokens are found before any merging; returns the special ones."""
    special = {
        index: AddedToken(tokens[index], special=True, normalized=False)
        for index, kind in enumerate(types)
        if kind == TokenType.CONTROL
    }
    merger.add_special_tokens(list(special.values()))
    merger.add_tokens(
        [
            AddedToken(tokens[index], special=False, normalized=is_normalized)
            for index, kind in enumerate(types)
            if kind == TokenType.USER_DEFINED
        ]
    )
    merger.encode_special_tokens = True
    return special


def _known_bytes(
    tokens: Sequence[str], types: Sequence[int], spell: _Spell, spell_added: _Spell
) -> tuple[bytes | None, ...]:
    known: list[bytes | None] = []
    for token, kind in zip(tokens, types, strict=True):
        if kind in _TEXT_TYPES:
            known.append(spell(token))
        else:
            known.append(spell_added(token) if kind == TokenType.USER_DEFINED else None)
    return tuple(known)


def _from_json(definition: TokenizerJson) -> TokenizerParts:
    content = json.loads(definition.text)
    _check_kind(content)
    content.update(truncation=None, padding=None, post_processor=None)
    space_prefix = _taken_space_prefix(content)
    try:
        merger = Merger.from_str(json.dumps(content))
    except Exception as error:  # the library raises nothing narrower
        raise UnsupportedModel(f"tokenizer.json cannot be used: {error}") from error
    merger.encode_special_tokens = True
    is_byte_level = _has_type(content.get("decoder"), "ByteLevel") or _has_type(
        content.get("pre_tokenizer"), "ByteLevel"
    )
    spell = byte_level_bytes if is_byte_level else piece_bytes
    spell_added = str.encode if is_byte_level else piece_bytes
    added = merger.get_added_tokens_decoder()
    vocabulary = merger.get_vocab(with_added_tokens=False)
    known: list[bytes | None] = [None] * (max((*vocabulary.values(), *added), default=-1) + 1)
    for token, index in vocabulary.items():
        known[index] = spell(token)
    for index, added_token in added.items():
        known[index] = None if added_token.special else spell_added(added_token.content)
    return TokenizerParts(
        merger=merger,
        token_bytes=tuple(known),
        special_tokens={index: token for index, token in added.items() if token.special},
        space_prefix=space_prefix,
    )


def _check_kind(content: dict[str, object]) -> None:
    """Refuse a tokenizer.json whose tokens this module cannot turn into bytes.

    Raises:
        UnsupportedModel: its model or decoder is unknown.
    """
    model = content.get("model")
    kind = model.get("type", "BPE") if isinstance(model, dict) else None
    if kind not in _MODELS:
        raise UnsupportedModel(f"tokenizer.json has the unknown model {kind!r}; known: {', '.join(_MODELS)}")
    unknown = {str(step.get("type")) for step in _steps(content.get("decoder"))} - set(_DECODERS)
    if unknown:
        raise UnsupportedModel(
            f"tokenizer.json has the unknown decoder {', '.join(sorted(unknown))}; known: {', '.join(_DECODERS)}"
        )


def _taken_space_prefix(content: dict[str, object]) -> SpacePrefix:
    """Take out of a tokenizer.json the steps that put a space before a text; returns what they did.

    A program's text goes on from what stands before it, so a space is added only where a prompt begins.
    """
    found = SpacePrefix.NEVER
    for part in (*_steps(content.get("normalizer")), *_steps(content.get("pre_tokenizer"))):
        match part:
            case {"type": "Prepend"}:
                part["prepend"] = ""
                found = SpacePrefix.ALWAYS
            case {"type": "Metaspace"}:
                scheme = "never" if part.pop("add_prefix_space", True) is False else "always"
                found = _METASPACE_SCHEMES.get(str(part.get("prepend_scheme", scheme)), found)
                part["prepend_scheme"] = "never"
            case {"type": "ByteLevel", "add_prefix_space": True}:
                part["add_prefix_space"] = False
                found = SpacePrefix.UNLESS_THERE
    return found


def _steps(part: object) -> list[dict[str, object]]:
    """A step of a tokenizer.json, or the steps of a sequence of them, to any depth."""
    if not isinstance(part, dict):
        return []
    inner = [step for key in ("normalizers", "pretokenizers", "decoders") for step in part.get(key) or []]
    return [part, *(found for step in inner for found in _steps(step))]


def _has_type(part: object, name: str) -> bool:
    return any(step.get("type") == name for step in _steps(part))
