"""The token vocabulary a grammar is compiled against: the bytes of every token and their prefix tree."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from sgrt_grammars.end_tokens import END_TOKEN_TEXTS
from sgrt_grammars.token_bytes import byte_level_bytes, piece_bytes
from sgrt_grammars.trie import TokenTrie

Derived = TypeVar("Derived")
Encode = Callable[[str], Sequence[int]]


class Vocabulary:
    """Immutable token bytes, as wide as the model's vocabulary.

    `tokens[t]` is the byte string of token `t`, None where the token is no text (special, unused).
    `end_token_ids` end a generation; they are never text. `special_tokens` names tokens that
    a constraint may ask for by id. `encode` is the tokenizer's own encoding of a text (without special
    tokens), used to spell forced text canonically; without it the longest matching token is taken.
    """

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        end_token_ids: Iterable[int],
        special_tokens: Mapping[str, int] | None = None,
        *,
        encode: Encode | None = None,
    ) -> None:
        self.tokens: tuple[bytes | None, ...] = tuple(tokens)
        self.end_token_ids: tuple[int, ...] = tuple(sorted(set(end_token_ids)))
        self.special_tokens: dict[str, int] = dict(special_tokens or {})
        self.encode = encode
        self._derived: dict[str, Any] = {}
        self._lock = threading.Lock()
        for token in (*self.end_token_ids, *self.special_tokens.values()):
            if not 0 <= token < len(self.tokens):
                raise ValueError(f"token id {token} lies outside the vocabulary of {len(self.tokens)} tokens")

    @property
    def size(self) -> int:
        """Number of token ids."""
        return len(self.tokens)

    def text(self, token: int) -> bytes | None:
        """The bytes of `token` where it may spell text: None for special and end tokens and unknown ids."""
        if not 0 <= token < len(self.tokens) or token in self._end_tokens:
            return None
        return self.tokens[token] or None

    @cached_property
    def _end_tokens(self) -> frozenset[int]:
        return frozenset(self.end_token_ids)

    @cached_property
    def trie(self) -> TokenTrie:
        """The prefix tree of all text tokens."""
        ends = self._end_tokens
        return TokenTrie(
            (text, token) for token, text in enumerate(self.tokens) if text and token not in ends
        )

    @cached_property
    def key(self) -> str:
        """A content hash: vocabularies of equal key have equal masks."""
        digest = hashlib.sha256()
        for text in self.tokens:
            digest.update(b"\xff" if text is None else len(text).to_bytes(4, "little") + text)
        digest.update(repr((self.end_token_ids, sorted(self.special_tokens.items()))).encode())
        return digest.hexdigest()

    def derived(self, name: str, make: Callable[[], Derived]) -> Derived:
        """What `make` builds from this vocabulary, built once and kept as long as the vocabulary."""
        with self._lock:
            if name not in self._derived:
                self._derived[name] = make()
            found: Derived = self._derived[name]
            return found

    @classmethod
    def from_tokenizer_json(
        cls,
        text: str,
        *,
        end_token_ids: Iterable[int] | None = None,
        size: int | None = None,
        encode: Encode | None = None,
    ) -> Vocabulary:
        """Read a `tokenizer.json`: byte-level BPE, or SentencePiece pieces with byte fallback.

        Without `end_token_ids`, the special tokens whose names mark an end are taken. `size` widens the
        vocabulary to the model's (its padding rows are no text). Added tokens that are special are no text: a
        constraint reaches them by id. Others (`<tool_call>` in some files) are text, as they are to an engine.
        """
        document = json.loads(text)
        model = document.get("model", {})
        pieces = _pieces(model.get("vocab"))
        added: list[dict[str, Any]] = document.get("added_tokens") or []
        width = max([size or 0, *(t + 1 for t in pieces.values()), *(entry["id"] + 1 for entry in added)])
        is_byte_level = _is_byte_level(document)
        spell = byte_level_bytes if is_byte_level else piece_bytes
        spell_added = str.encode if is_byte_level else piece_bytes
        tokens: list[bytes | None] = [None] * width
        for piece, token in pieces.items():
            tokens[token] = spell(piece)
        special: dict[str, int] = {}
        for entry in added:
            content, token = str(entry["content"]), int(entry["id"])
            tokens[token] = None if entry.get("special") else spell_added(content)
            if entry.get("special"):
                special[content] = token
        ends = tuple(end_token_ids) if end_token_ids is not None else _end_tokens_of(special)
        return cls(tokens, ends, special, encode=encode)


def _pieces(vocab: object) -> dict[str, int]:
    """Piece -> id, of BPE's mapping or Unigram's list of (piece, score)."""
    if isinstance(vocab, dict):
        return {str(piece): int(token) for piece, token in vocab.items()}
    if isinstance(vocab, list):
        return {str(entry[0]): token for token, entry in enumerate(vocab)}
    raise ValueError("the tokenizer file has no vocabulary: expected a BPE or Unigram `model.vocab`")


def _is_byte_level(document: Mapping[str, Any]) -> bool:
    return '"ByteLevel"' in json.dumps([document.get("decoder"), document.get("pre_tokenizer")])


def _end_tokens_of(special: Mapping[str, int]) -> tuple[int, ...]:
    ends = tuple(token for name, token in special.items() if name in END_TOKEN_TEXTS)
    if not ends:
        raise ValueError("the tokenizer file names no known end token; pass end_token_ids")
    return ends
