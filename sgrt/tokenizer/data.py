"""What a tokenizer is built from, read from a model file and not yet turned into anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class TokenType(IntEnum):
    """The kinds of token a GGUF file distinguishes (numbers are the file's)."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteLevelBpe:
    """A GPT-2 style vocabulary: tokens spell bytes in GPT-2's printable alphabet, merges are ranked."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]  # TokenType of each token
    merges: tuple[str, ...]  # "left right"
    pre: str  # how text is split before merging: a key of `sgrt.tokenizer.splitting`


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPieces:
    """A SentencePiece BPE vocabulary: pieces with scores, spaces as U+2581, `<0xNN>` for single bytes."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]  # TokenType of each token
    scores: tuple[float, ...]  # of two possible merges the one with the higher score is done first
    unknown_token_id: int
    has_space_prefix: bool  # the model was trained with a space before every text


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerJson:
    """The content of a `tokenizer.json`."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerData:
    """A tokenizer's definition and what the model file says about its use."""

    definition: ByteLevelBpe | ScoredPieces | TokenizerJson
    vocabulary_size: int  # rows of the model's embedding; at least as many as there are tokens
    begin_token_ids: tuple[int, ...]  # what every prompt starts with
    end_token_ids: tuple[int, ...]  # each of them ends a generation
    chat_template: str | None
    template_tokens: tuple[tuple[str, str], ...]  # names a template may use: ("bos_token", "<s>"), ...
