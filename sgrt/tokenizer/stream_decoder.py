"""Turns a growing run of tokens into text, never cutting a character."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from sgrt.tokenizer.tokenizer import Tokenizer


class StreamDecoder:
    """The text of tokens as they come.

    All pieces joined equal `Tokenizer.decode` of all tokens, but for a character that the last tokens
    began and did not finish: it is left out.
    """

    __slots__ = ("_decoder", "_skip_special", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, token_ids: Sequence[int]) -> str:
        """The characters that `token_ids` complete; the bytes of an unfinished one are kept for later."""
        return self._decoder.decode(self._tokenizer.bytes_of(token_ids, skip_special=self._skip_special))
