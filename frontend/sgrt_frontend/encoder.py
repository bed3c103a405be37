"""Constants to tokens: a backend's encoder with what a run keeps of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from sgrt_frontend.backend import Backend
from sgrt_frontend.chain import Piece
from sgrt_frontend.rope import Rope
from sgrt_frontend.template import TurnMarks

_KEPT_TEXTS = 4096


class Encoder:
    """Encodes pieces, remembering recent constants (items of a batch share most of them)."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.marks = TurnMarks(backend)
        self.begin_tokens = backend.begin_tokens()
        self.end_token_ids = frozenset(backend.describe().end_token_ids)
        self._kept: OrderedDict[tuple[str, bool], tuple[int, ...]] = OrderedDict()

    def encode(self, text: str, *, is_special: bool = False) -> tuple[int, ...]:
        """Token ids of a constant."""
        key = (text, is_special)
        tokens = self._kept.get(key)
        if tokens is None:
            tokens = self.backend.encode(text, special=is_special)
            self._kept[key] = tokens
            if len(self._kept) > _KEPT_TEXTS:
                self._kept.popitem(last=False)
        return tokens

    def extend(self, rope: Rope, pieces: Sequence[Piece]) -> Rope:
        """The rope with pieces appended; neighbouring constants of one turn are encoded as one text."""
        for piece in _merged(pieces):
            if piece.tokens is not None:
                rope = rope.extend(piece.tokens, piece.text, turn=piece.turn)
                continue
            if rope.length == 0 and self.begin_tokens:
                rope = rope.extend(self.begin_tokens, "")
            tokens = self.encode(piece.text, is_special=piece.is_special)
            rope = rope.extend(tokens, piece.text, turn=piece.turn, role=piece.role)
        return rope


def _merged(pieces: Sequence[Piece]) -> list[Piece]:
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if last is not None and _joins(last, piece):
            merged[-1] = Piece(
                text=last.text + piece.text, is_special=piece.is_special, turn=piece.turn, role=piece.role
            )
        elif piece.text or piece.tokens:
            merged.append(piece)
    return merged


def _joins(left: Piece, right: Piece) -> bool:
    return (
        left.tokens is None
        and right.tokens is None
        and left.is_special == right.is_special
        and left.turn == right.turn
        and left.role == right.role
    )
