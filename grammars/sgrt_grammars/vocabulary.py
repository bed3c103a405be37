"""The token vocabulary a grammar is compiled against: the bytes of every token and their prefix tree."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from sgrt_grammars.trie import TokenTrie

Derived = TypeVar("Derived")
Encode = Callable[[str], Sequence[int]]

_BYTE_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
_MARK = re.compile(r"<.*>\Z|\[.*\]\Z", re.DOTALL)


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
        vocabulary to the model's (its padding rows are no text). Added tokens that are special or look like marks
        (`<tool_call>`) are no text: a constraint reaches them by id.
        """
        document = json.loads(text)
        model = document.get("model", {})
        pieces = _pieces(model.get("vocab"))
        added: list[dict[str, Any]] = document.get("added_tokens") or []
        width = max([size or 0, *(t + 1 for t in pieces.values()), *(entry["id"] + 1 for entry in added)])
        spell = _spelling(document)
        tokens: list[bytes | None] = [None] * width
        for piece, token in pieces.items():
            tokens[token] = spell(piece)
        special: dict[str, int] = {}
        for entry in added:
            content, token = str(entry["content"]), int(entry["id"])
            is_mark = bool(entry.get("special")) or _MARK.match(content) is not None
            tokens[token] = None if is_mark else content.encode()
            if is_mark:
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


def _spelling(document: Mapping[str, Any]) -> Callable[[str], bytes | None]:
    """How this tokenizer's pieces spell bytes, read off its decoder and pre-tokenizer."""
    shape = json.dumps([document.get("decoder"), document.get("pre_tokenizer")])
    if '"ByteLevel"' in shape:
        return _byte_level_spelling()
    return _sentencepiece_spelling


def _byte_level_spelling() -> Callable[[str], bytes | None]:
    """The printable stand-ins of byte-level BPE: printable Latin-1 for itself, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    table.update({chr(0x100 + index): byte for index, byte in enumerate(others)})

    def spell(piece: str) -> bytes | None:
        try:
            return bytes([table[character] for character in piece])
        except KeyError:
            return piece.encode()

    return spell


def _sentencepiece_spelling(piece: str) -> bytes | None:
    fallback = _BYTE_FALLBACK.match(piece)
    if fallback:
        return bytes([int(fallback.group(1), 16)])
    return piece.replace("\u2581", " ").encode()


_END_NAMES = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<eos>",
    "</s>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)


def _end_tokens_of(special: Mapping[str, int]) -> tuple[int, ...]:
    ends = tuple(special[name] for name in _END_NAMES if name in special)
    if not ends:
        raise ValueError("the tokenizer file names no known end token; pass end_token_ids")
    return ends
