"""What every kind of definition is turned into before a `Tokenizer` is made of it."""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import AddedToken
from tokenizers import Tokenizer as Merger


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerParts:
    """A merger (the `tokenizers` library's object) and what it knows of its tokens.

    The merger never sees special tokens: it takes text as text. Nor does it put a space before it.
    """

    merger: Merger
    token_bytes: tuple[bytes | None, ...]  # by id; None for special and unused tokens
    special_tokens: dict[int, AddedToken]
    has_space_prefix: bool  # the model was trained with a space before every text
