"""Constants to tokens: a backend's encoder with what a run keeps of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from typing_extensions import ParamSpec

from sgrt_frontend.backend import Backend
from sgrt_frontend.chain import Piece
from sgrt_frontend.errors import ContextOverflow
from sgrt_frontend.memo import RememberingBackend
from sgrt_frontend.rope import PieceKind, Rope
from sgrt_frontend.template import TurnMarks

_USUAL_CHARACTERS = 16  # a token has fewer in ordinary text

P = ParamSpec("P")
R = TypeVar("R")


class Encoder:
    """Encodes pieces, remembering constants (items of a batch share most of them)."""

    def __init__(self, backend: Backend) -> None:
        self.backend = RememberingBackend(backend)
        self.marks = TurnMarks(self.backend)
        self.begin_tokens = self.backend.begin_tokens()
        description = backend.describe()
        self.end_token_ids = frozenset(description.end_token_ids)
        self._context_tokens = description.context_tokens
        self._is_remote = description.is_remote

    async def beside_loop(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do what asks the backend to encode or decode: on a thread where it is far away, so that streams go on."""
        if self._is_remote:
            return await asyncio.to_thread(work, *args, **kwargs)
        return work(*args, **kwargs)

    def encode(self, text: str, *, is_special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        """Token ids of a constant; `is_start` if it opens the prompt.

        Raises:
            ContextOverflow: even in the longest tokens there are, the text would not fit the context.
        """
        if not is_special:
            self._refuse_overlong(text)
        return self.backend.encode(text, special=is_special, is_start=is_start)

    def _refuse_overlong(self, text: str) -> None:
        """Megabytes take seconds to encode; the vocabulary is asked only where the text is likely to be too long."""
        context = self._context_tokens
        if len(text) <= context * _USUAL_CHARACTERS:
            return
        if len(text) > context * self.backend.spelling().longest:
            raise ContextOverflow(
                f"a text of {len(text)} characters is longer than the model's context length of {context} tokens can "
                "hold; shorten it",
                param="text",
            )

    def begun(self, rope: Rope) -> Rope:
        """The rope, with the model's begin token if it is empty."""
        if rope.length or not self.begin_tokens:
            return rope
        return rope.extend(self.begin_tokens, "", kind=PieceKind.BEGIN)

    def extend(self, rope: Rope, pieces: Sequence[Piece]) -> Rope:
        """The rope with pieces appended; neighbouring constants of one turn are encoded as one text."""
        for piece in _merged(pieces):
            if piece.tokens is not None:
                rope = rope.extend(
                    piece.tokens, piece.text, turn=piece.turn, role=piece.role, kind=PieceKind.MARKS
                )
                continue
            rope = self.begun(rope)
            tokens = self.encode(piece.text, is_special=piece.is_special, is_start=is_start(rope))
            rope = rope.extend(tokens, piece.text, turn=piece.turn, role=piece.role)
        return rope


def is_start(rope: Rope) -> bool:
    """Whether text after `rope` opens the prompt: nothing but begin tokens is there."""
    return rope.length == 0 or rope.kind is PieceKind.BEGIN


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
