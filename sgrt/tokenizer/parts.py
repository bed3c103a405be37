"""What every kind of definition is turned into before a `Tokenizer` is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tokenizers import AddedToken
from tokenizers import Tokenizer as Merger


class SpacePrefix(Enum):
    """Whether a model was trained with a space put before the start of every text."""

    NEVER = "never"
    ALWAYS = "always"
    UNLESS_THERE = "unless there"  # a text that starts with a space gets no second one
    FIRST_UNLESS_THERE = "first unless there"  # the same, but not after a special token

    def applied(self, text: str) -> str:
        """`text` with its space; an empty text stays empty."""
        is_needed = text and self is not SpacePrefix.NEVER
        return f" {text}" if is_needed and (self is SpacePrefix.ALWAYS or not text[0].isspace()) else text


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerParts:
    """A merger (the `tokenizers` library's object) and what it knows of its tokens.

    The merger never sees special tokens: it takes text as text. Nor does it put a space before it.
    """

    merger: Merger
    token_bytes: tuple[bytes | None, ...]  # by id; None for special and unused tokens
    special_tokens: dict[int, AddedToken]
    space_prefix: SpacePrefix
