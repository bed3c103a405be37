"""A saved state: tokens with their texts and turns, and variables, as a file."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import to_jsonable_python

from sgrt_frontend.call import Role
from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.rope import PieceKind, Rope
from sgrt_frontend.turns import Turns


class SnapshotPiece(BaseModel):
    """A run of tokens and the text it stands for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: tuple[int, ...]
    text: str
    turn: int = 0
    role: Role | None = None
    kind: PieceKind = PieceKind.CONSTANT


class Snapshot(BaseModel):
    """The file form of a state. Token ids mean something for `model` alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = 1
    model: str
    pieces: tuple[SnapshotPiece, ...]
    roles: tuple[Role, ...]
    is_closed: bool
    variables: dict[str, Any]

    @classmethod
    def of(cls, rope: Rope, turns: Turns, variables: dict[str, Any], *, model: str) -> Snapshot:
        """The snapshot of a settled state.

        Raises:
            InvalidRequest: a variable has a value that JSON cannot hold; names it.
        """
        pieces = tuple(
            SnapshotPiece(
                tokens=piece.tokens, text=piece.text, turn=piece.turn, role=piece.role, kind=piece.kind
            )
            for piece in rope.pieces()
            if piece.tokens
        )
        return cls(
            model=model,
            pieces=pieces,
            roles=turns.roles,
            is_closed=turns.is_closed,
            variables={name: _plain(name, value) for name, value in variables.items()},
        )

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Read a file's text.

        Raises:
            InvalidRequest: it is not a saved state, or of a version this program does not know.
        """
        try:
            snapshot = cls.model_validate_json(text)
        except ValidationError as error:
            raise InvalidRequest(f"path: not a saved state: {error}", param="path") from error
        if snapshot.version != 1:
            raise InvalidRequest(f"path: version {snapshot.version} is unknown; 1 is known", param="path")
        return snapshot

    def to_json(self) -> str:
        """The file's text."""
        return self.model_dump_json()

    def require_model(self, model: str) -> None:
        """Refuse to go on under another model, whose tokens mean something else."""
        if model != self.model:
            raise InvalidRequest(
                f"path: the state was saved with model {self.model!r}, but {model!r} runs here", param="path"
            )

    def rope(self) -> Rope:
        """The tokens."""
        rope = Rope.empty()
        for piece in self.pieces:
            rope = rope.extend(piece.tokens, piece.text, turn=piece.turn, role=piece.role, kind=piece.kind)
        return rope

    def turns(self) -> Turns:
        """The turns, none of them open."""
        return Turns(roles=self.roles, open_role=None, is_closed=self.is_closed)


def _plain(name: str, value: object) -> object:
    try:
        return to_jsonable_python(value)
    except ValueError as error:  # of pydantic: an unknown type, or a value that contains itself
        raise InvalidRequest(
            f"save: variable {name!r} has a value that JSON cannot hold ({error}); set it to a plain value, a "
            "dataclass or a pydantic model before saving",
            param=name,
        ) from error
