"""Text to tokens and back.

Bytes are the truth: decoding joins the bytes of tokens, streaming does so piece by piece, and grammars are compiled
against the same bytes, so the three cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from sgrt.tokenizer.building import build_parts
from sgrt.tokenizer.data import TokenizerData
from sgrt.tokenizer.mark_pattern import mark_pattern
from sgrt.tokenizer.parts import SpacePrefix, TokenizerParts
from sgrt_grammars.vocabulary import Vocabulary


class Tokenizer:
    """A model's tokenizer. Immutable; may be used from several threads."""

    def __init__(self, data: TokenizerData) -> None:
        """Build the tokenizer that a model file describes.

        Raises:
            UnsupportedModel: it asks for something unknown; the message lists what is known.
            CorruptModel: it contradicts itself.
        """
        self._parts: TokenizerParts = build_parts(data.definition)
        self._size = max(data.vocabulary_size, len(self._parts.token_bytes))
        self._begin_tokens = data.begin_token_ids
        self._end_token_ids = data.end_token_ids
        self._marks = mark_pattern(token.content for token in self._parts.special_tokens.values())
        self._ids_of_marks = {token.content: index for index, token in self._parts.special_tokens.items()}

    @property
    def size(self) -> int:
        """Number of token ids, those without a text included: as wide as the model's vocabulary."""
        return self._size

    @property
    def begin_tokens(self) -> tuple[int, ...]:
        """What a prompt of plain text starts with. A rendered chat has them from its template."""
        return self._begin_tokens

    @property
    def end_token_ids(self) -> tuple[int, ...]:
        """Every token that ends a generation."""
        return self._end_token_ids

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Tokens that are marks, not text, by their spelling."""
        return MappingProxyType(self._ids_of_marks)

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        """The tokens of `text`, without a begin token.

        The text of a special token is text like any other, unless `special` is set: then it becomes that token.
        `is_start`: the text opens a prompt. Models of the SentencePiece kind that were trained with a space before
        every text get one; to the others it makes no difference.
        """
        if not special:
            return tuple(self._encode_text(text, is_start=is_start))
        return self.encode_pieces(self.pieces(text), is_start=is_start)

    def encode_pieces(self, pieces: Iterable[tuple[str, int | None]], *, is_start: bool) -> tuple[int, ...]:
        """The tokens of runs of plain text, each with the special token that ends it, as `pieces` cuts them."""
        ids: list[int] = []
        at_start, is_after_marks = is_start, self._parts.space_prefix is not SpacePrefix.FIRST_UNLESS_THERE
        for run, mark in pieces:
            if run:
                ids += self._encode_text(run, is_start=at_start)
            if mark is not None:
                ids.append(mark)
            at_start = is_start and is_after_marks and mark is not None
        return tuple(ids)

    def decode(self, token_ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of tokens; what is no UTF-8 becomes U+FFFD. Special tokens are left out or spelled."""
        return self.bytes_of(token_ids, skip_special=skip_special).decode("utf-8", errors="replace")

    def bytes_of(self, token_ids: Sequence[int], *, skip_special: bool = True) -> bytes:
        """The bytes of tokens, as `decode` reads them."""
        known = self._parts.token_bytes
        pieces: list[bytes] = []
        for token_id in token_ids:
            piece = known[token_id] if 0 <= token_id < len(known) else None
            if piece is None and not skip_special and token_id in self._parts.special_tokens:
                piece = self._parts.special_tokens[token_id].content.encode()
            pieces.append(piece or b"")
        return b"".join(pieces)

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of one token; None for a special or unused token, and for ids outside the vocabulary."""
        known = self._parts.token_bytes
        return known[token_id] if 0 <= token_id < len(known) else None

    @cached_property
    def all_token_bytes(self) -> tuple[bytes | None, ...]:
        """`token_bytes` of every id, `size` of them."""
        known = self._parts.token_bytes
        return known + (None,) * (self._size - len(known))

    def token_id(self, spelling: str) -> int | None:
        """The id of a special or added token (a tool-call mark, say) by its spelling."""
        found: int | None = self._parts.merger.token_to_id(spelling)
        return found

    def vocabulary(self) -> Vocabulary:
        """The vocabulary that grammars are compiled against; built once."""
        return self._vocabulary

    def pieces(self, text: str) -> Iterator[tuple[str, int | None]]:
        """Cut `text` at special tokens: runs of text (maybe empty), each with the special token that ends it.

        The last run ends with None. Spaces that a special token swallows are left out.
        """
        end, swallows = 0, False
        for match in self._marks.finditer(text):
            mark = self._ids_of_marks[match[0]]
            token = self._parts.special_tokens[mark]
            run = text[end : match.start()]
            run = run.lstrip() if swallows else run
            yield (run.rstrip() if token.lstrip else run), mark
            end, swallows = match.end(), token.rstrip
        yield (text[end:].lstrip() if swallows else text[end:]), None

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(self.all_token_bytes, self._end_token_ids, self._ids_of_marks, encode=self.encode)

    def _encode_text(self, text: str, *, is_start: bool) -> list[int]:
        whole = self._parts.space_prefix.applied(text) if is_start else text
        # The batch form lets other threads run meanwhile; the plain one holds the interpreter for seconds on a long text.
        (encoding,) = self._parts.merger.encode_batch_fast([whole], add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids
