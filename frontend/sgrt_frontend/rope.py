"""The tokens of a state: an immutable sequence that shares its beginning with its relatives."""

from __future__ import annotations

from enum import Enum

from sgrt_frontend.call import Role


class PieceKind(Enum):
    """Where the tokens of a piece come from."""

    BEGIN = "begin"  # the model's begin token
    CONSTANT = "constant"  # text of the program
    MARKS = "marks"  # the chat template
    GENERATED = "generated"


class Rope:
    """A run of tokens after a parent's tokens, with the text they stand for.

    Forks share a rope by reference; `flat()` is computed once per rope and kept.
    `turn` numbers the chat turn the piece belongs to (marks: the turn they open) and `role` is its
    speaker; pieces outside any turn have neither.
    """

    __slots__ = ("_flat", "kind", "length", "parent", "role", "text", "tokens", "turn")

    def __init__(
        self,
        parent: Rope | None,
        tokens: tuple[int, ...],
        text: str,
        *,
        turn: int = 0,
        role: Role | None = None,
        kind: PieceKind = PieceKind.CONSTANT,
    ) -> None:
        self.kind = kind
        self.parent = parent
        self.tokens = tokens
        self.text = text
        self.turn = turn
        self.role = role
        self.length: int = len(tokens) + (parent.length if parent is not None else 0)
        self._flat: tuple[int, ...] | None = None

    @classmethod
    def empty(cls) -> Rope:
        """The rope every state begins with."""
        return cls(None, (), "")

    def extend(
        self,
        tokens: tuple[int, ...],
        text: str,
        *,
        turn: int = 0,
        role: Role | None = None,
        kind: PieceKind = PieceKind.CONSTANT,
    ) -> Rope:
        """A longer rope; this one stays as it is."""
        return Rope(self, tokens, text, turn=turn, role=role, kind=kind)

    def flat(self) -> tuple[int, ...]:
        """All tokens from the beginning."""
        if self._flat is None:
            pieces: list[tuple[int, ...]] = []
            rope: Rope | None = self
            while rope is not None and rope._flat is None:
                pieces.append(rope.tokens)
                rope = rope.parent
            start = rope._flat if rope is not None and rope._flat is not None else ()
            self._flat = start + tuple(token for piece in reversed(pieces) for token in piece)
        return self._flat

    def pieces(self, since: Rope | None = None) -> list[Rope]:
        """The pieces after `since` (an ancestor; from the beginning without it), oldest first."""
        found: list[Rope] = []
        rope: Rope | None = self
        while rope is not None and rope is not since:
            found.append(rope)
            rope = rope.parent
        found.reverse()
        return found

    def text_since(self, since: Rope | None = None) -> str:
        """The text after `since`."""
        return "".join(piece.text for piece in self.pieces(since))
