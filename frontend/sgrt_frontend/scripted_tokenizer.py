"""A small real tokenizer: bytes, common pairs and words, and special tokens of a chat template.

Like larger ones it spells the same text differently across a border ("a " + "b" is not "a b"), so
programs tested with it exercise their states token by token. Its ids never depend on what it has seen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sgrt_frontend.spelling import Spelling

_SPECIAL = (
    "<|begin|>",
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<think>",
    "</think>",
)
COMMON_WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "it",
    "you",
    "that",
    "he",
    "was",
    "for",
    "on",
    "are",
    "with",
    "as",
    "his",
    "they",
    "at",
    "be",
    "this",
    "from",
    "have",
    "or",
    "by",
    "one",
    "had",
    "not",
    "but",
    "what",
    "all",
    "were",
    "when",
    "we",
    "there",
    "can",
    "an",
    "your",
    "which",
    "their",
    "said",
    "if",
    "do",
    "will",
    "each",
    "about",
    "how",
    "up",
    "out",
    "them",
    "then",
    "she",
    "many",
    "some",
    "so",
    "these",
    "would",
    "other",
    "into",
    "has",
    "more",
    "her",
    "two",
    "like",
    "him",
    "see",
    "time",
    "could",
    "no",
    "make",
    "than",
    "first",
    "been",
    "its",
    "who",
    "now",
    "people",
    "my",
    "made",
    "over",
    "did",
    "down",
    "only",
    "way",
    "find",
    "use",
    "may",
    "long",
    "little",
    "very",
    "after",
    "words",
    "called",
    "just",
    "where",
    "most",
    "know",
    "name",
    "answer",
    "question",
    "thought",
    "action",
    "result",
    "yes",
    "score",
    "city",
    "country",
    "Paris",
    "true",
    "false",
    "null",
]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PIECES = re.compile(r" ?[A-Za-z]+| ?[0-9]|\s+|[^\sA-Za-z0-9]+", re.DOTALL)


def _vocabulary() -> list[bytes]:
    pairs = [left + right for left in _LETTERS for right in _LETTERS] + [" " + letter for letter in _LETTERS]
    marks = ['":', '",', '{"', '"}', "\n\n", "  ", ". ", ", ", '"]', '["']
    words = [
        form
        for word in COMMON_WORDS
        for form in (word, " " + word, word.capitalize(), " " + word.capitalize())
    ]
    texts = dict.fromkeys(pairs + marks + words)
    return [bytes([byte]) for byte in range(256)] + [text.encode() for text in texts if len(text) > 1]


class ScriptedTokenizer:
    """Encodes and decodes. `special` tokens come first in the id order, then bytes, then longer pieces."""

    def __init__(self) -> None:
        self.special = {text: token_id for token_id, text in enumerate(_SPECIAL)}
        vocabulary = _vocabulary()
        self._bytes = [b""] * len(_SPECIAL) + vocabulary
        self._ids = {data: token_id for token_id, data in enumerate(self._bytes) if data}
        self._longest = max(map(len, vocabulary))
        self._marks = re.compile("(" + "|".join(map(re.escape, _SPECIAL)) + ")")
        self.spelling = Spelling(self._bytes)

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def end_token_id(self) -> int:
        """The token that ends a turn and a text."""
        return self.special["<|end|>"]

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """Token ids of a text; marks become special tokens only when asked."""
        if not special:
            return tuple(self._plain(text))
        tokens: list[int] = []
        for part in self._marks.split(text):
            tokens.extend([self.special[part]] if part in self.special else self._plain(part))
        return tuple(tokens)

    def _plain(self, text: str) -> list[int]:
        tokens: list[int] = []
        for piece in _PIECES.findall(text):
            data = piece.encode("utf-8", "surrogatepass")
            start = 0
            while start < len(data):
                end = min(len(data), start + self._longest)
                while data[start:end] not in self._ids:
                    end -= 1
                tokens.append(self._ids[data[start:end]])
                start = end
        return tokens

    def decode_bytes(self, token_ids: Sequence[int]) -> bytes:
        """The bytes of tokens; special tokens have none."""
        return self.spelling.bytes_of(token_ids)

    def shown(self, token_ids: Sequence[int]) -> str:
        """The text of tokens with special tokens written out: what a script's function is given."""
        names = {token_id: text for text, token_id in self.special.items()}
        data = b"".join(names[t].encode() if t in names else self._bytes[t] for t in token_ids)
        return data.decode("utf-8", "replace")
