"""The file form of a trace: JSON, with every part of a prompt written once however many calls share it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from sgrt_frontend.call import Description, Message, Role, SamplingParams, Score
from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.memo import Memo
from sgrt_frontend.rope import PieceKind, Rope
from sgrt_frontend.slot import Sample
from sgrt_frontend.trace import CallKind, Trace, TracedCall


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PieceRow(_Model):
    """A part of a prompt after the part of number `parent` (0 is the empty beginning; rows count from 1)."""

    parent: int
    tokens: tuple[int, ...]
    text: str
    kind: PieceKind
    turn: int = 0
    role: Role | None = None


class CallRow(_Model):
    """One call; `before` is the number of the last part of its prompt."""

    label: str
    variable: str
    kind: CallKind
    source: str
    before: int
    sampling: SamplingParams
    constraint: str
    started_s: float
    seconds: float
    samples: tuple[Sample, ...]
    probabilities: dict[str, float]
    unexplored: float
    continuations: tuple[tuple[int, ...], ...]
    scores: tuple[Score, ...]
    error: str


class EncodedRow(_Model):
    """A constant and its tokens."""

    text: str
    is_special: bool
    is_start: bool = False
    tokens: tuple[int, ...]


class DecodedRow(_Model):
    """Tokens and their text."""

    tokens: tuple[int, ...]
    text: str


class RenderedRow(_Model):
    """A rendered chat."""

    messages: tuple[Message, ...]
    open_assistant: bool
    tokens: tuple[int, ...]


class TraceFile(_Model):
    """A whole trace."""

    version: int = 1
    program: str
    seed: int
    description: Description
    begin_tokens: tuple[int, ...]
    args: list[Any]
    kwargs: dict[str, Any]
    pieces: tuple[PieceRow, ...]
    calls: tuple[CallRow, ...]
    encoded: tuple[EncodedRow, ...]
    decoded: tuple[DecodedRow, ...]
    rendered: tuple[RenderedRow, ...]


class _PieceTable:
    """Numbers ropes, parents first."""

    def __init__(self) -> None:
        self.rows: list[PieceRow] = []
        self._numbers: dict[int, int] = {}

    def number(self, rope: Rope) -> int:
        new: list[Rope] = []
        walk: Rope | None = rope
        while walk is not None and walk.parent is not None and id(walk) not in self._numbers:
            new.append(walk)
            walk = walk.parent
        for piece in reversed(new):
            assert piece.parent is not None, "only ropes with a parent are walked"
            row = PieceRow(
                parent=self._numbers.get(id(piece.parent), 0),
                tokens=piece.tokens,
                text=piece.text,
                kind=piece.kind,
                turn=piece.turn,
                role=piece.role,
            )
            self.rows.append(row)
            self._numbers[id(piece)] = len(self.rows)
        return self._numbers.get(id(rope), 0)


def save_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace to a file. Arguments that have no JSON form are written as their representation."""
    table = _PieceTable()
    calls = tuple(_call_row(call, table) for call in trace.ordered())
    args, kwargs = trace.arguments
    file = TraceFile(
        program=trace.program,
        seed=trace.seed,
        description=trace.memo.description,
        begin_tokens=trace.memo.begin_tokens,
        args=to_jsonable_python(list(args), fallback=repr),
        kwargs=to_jsonable_python(dict(kwargs), fallback=repr),
        pieces=tuple(table.rows),
        calls=calls,
        encoded=tuple(
            EncodedRow(text=text, is_special=is_special, is_start=is_start, tokens=tokens)
            for (text, is_special, is_start), tokens in trace.memo.encoded.items()
        ),
        decoded=tuple(DecodedRow(tokens=tokens, text=text) for tokens, text in trace.memo.decoded.items()),
        rendered=tuple(
            RenderedRow(messages=messages, open_assistant=is_open, tokens=tokens)
            for (messages, is_open), tokens in trace.memo.rendered.items()
        ),
    )
    Path(path).write_bytes(_ADAPTER.dump_json(file))


_ADAPTER = TypeAdapter(TraceFile)


def _call_row(call: TracedCall, table: _PieceTable) -> CallRow:
    return CallRow(
        label=call.label,
        variable=call.variable,
        kind=call.kind,
        source=call.source,
        before=table.number(call.before),
        sampling=call.sampling,
        constraint=call.constraint,
        started_s=call.started_s,
        seconds=call.seconds,
        samples=call.samples,
        probabilities=dict(call.probabilities),
        unexplored=call.unexplored,
        continuations=call.continuations,
        scores=call.scores,
        error=call.error,
    )


def load_trace(path: str | Path) -> Trace:
    """Read a trace from a file.

    Raises:
        InvalidRequest: the file is not a trace, or of a version this program does not know.
    """
    try:
        file = _ADAPTER.validate_json(Path(path).read_bytes())
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = "".join(f"/{part}" for part in fault["loc"]) or "its beginning"
        raise InvalidRequest(
            f"path: {path} is not a trace: {fault['msg']} (at {where})", param="path"
        ) from None
    if file.version != 1:
        raise InvalidRequest(f"path: trace version {file.version} is unknown; 1 is known", param="path")
    ropes = [Rope.empty()]
    for row in file.pieces:
        if row.parent >= len(ropes):
            raise InvalidRequest(f"path: {path} is not a trace: a part refers to a later one", param="path")
        ropes.append(
            ropes[row.parent].extend(row.tokens, row.text, turn=row.turn, role=row.role, kind=row.kind)
        )
    memo = Memo(
        description=file.description,
        begin_tokens=file.begin_tokens,
        encoded={(row.text, row.is_special, row.is_start): row.tokens for row in file.encoded},
        decoded={row.tokens: row.text for row in file.decoded},
        rendered={(row.messages, row.open_assistant): row.tokens for row in file.rendered},
    )
    trace = Trace(program=file.program, seed=file.seed, memo=memo, arguments=(tuple(file.args), file.kwargs))
    trace.calls = [_traced_call(row, ropes) for row in file.calls]
    return trace


def _traced_call(row: CallRow, ropes: list[Rope]) -> TracedCall:
    if row.before >= len(ropes):
        raise InvalidRequest("path: not a trace: a call refers to a part that is not there", param="path")
    return TracedCall(
        label=row.label,
        variable=row.variable,
        kind=row.kind,
        source=row.source,
        before=ropes[row.before],
        sampling=row.sampling,
        constraint=row.constraint,
        started_s=row.started_s,
        seconds=row.seconds,
        samples=row.samples,
        probabilities=row.probabilities,
        unexplored=row.unexplored,
        continuations=row.continuations,
        scores=row.scores,
        error=row.error,
    )
