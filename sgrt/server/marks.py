"""Marks of a format in one vocabulary: which are special tokens, and the text of outputs that hold them."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum

import numpy as np

from sgrt_frontend.backend import Backend
from sgrt_grammars.constraint import Constraint, Text, Token
from sgrt_grammars.tools.format import Format

_BLOCK = 8192  # tokens of a prompt that are compared at once


class Marks:
    """Spells fixed texts for one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def spell(self, text: str) -> tuple[Constraint, ...]:
        """`text` as runs of plain text and special tokens."""
        return tuple(
            Text(text=piece) if token_id is None else Token(token_id=token_id)
            for piece, token_id in self._pieces(text)
        )

    def special_tokens(self, form: Format) -> dict[int, str]:
        """The special tokens among a format's fixed texts, with their spelling."""
        found: dict[int, str] = {}
        for text in _fixed_texts(form):
            found.update({token_id: piece for piece, token_id in self._pieces(text) if token_id is not None})
        return found

    def last_position(self, prompt: tuple[int, ...], mark: str) -> int:
        """Where `mark` begins for the last time in a prompt; -1 if it does not occur."""
        wanted = self._backend.encode(mark, special=True)
        num_starts = len(prompt) - len(wanted) + 1 if wanted else 0
        for end in range(num_starts, 0, -_BLOCK):  # from the back, where marks of the last turn are
            start = max(0, end - _BLOCK)
            block = np.asarray(prompt[start : end + len(wanted) - 1], dtype=np.int64)
            found = block[: end - start] == wanted[0]
            for offset, token_id in enumerate(wanted[1:], start=1):
                found &= block[offset : offset + end - start] == token_id
            if found.any():
                return start + int(np.flatnonzero(found)[-1])
        return -1

    def _pieces(self, text: str) -> list[tuple[str, int | None]]:
        """(text, None) for plain runs and (spelling, id) for special tokens, in order."""
        if not text:
            return []
        spelling = self._backend.spelling()
        runs: list[bytes | int] = []
        for token_id in self._backend.encode(text, special=True):
            raw = spelling.bytes_of((token_id,))
            if not raw:
                runs.append(token_id)
            elif runs and isinstance(runs[-1], bytes):
                runs[-1] += raw
            else:
                runs.append(raw)
        if not any(isinstance(run, int) for run in runs):
            return [(text, None)]
        return _located(text, runs)


def _located(text: str, runs: list[bytes | int]) -> list[tuple[str, int | None]]:
    """Give every special token its spelling: what lies between the plain runs."""
    result: list[tuple[str, int | None]] = []
    at = 0
    for index, run in enumerate(runs):
        if isinstance(run, bytes):
            piece = run.decode("utf-8", "replace")
            piece = (
                piece if text.startswith(piece, at) else piece.lstrip()
            )  # a dummy space some tokenizers add
            if piece:
                result.append((piece, None))
            at += len(piece)
            continue
        following = next((item for item in runs[index + 1 :] if isinstance(item, bytes)), None)
        end = len(text) if following is None else text.find(following.decode("utf-8", "replace").strip(), at)
        result.append((text[at : end if end > at else len(text)], run))
        at = end if end > at else len(text)
    return result


def _fixed_texts(value: object) -> Iterable[str]:
    """Every text in a description, whatever part it stands in."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _fixed_texts(item)
    elif is_dataclass(value) and not isinstance(value, type | Enum):
        for field in fields(value):
            if field.name not in ("name", "template_marks"):
                yield from _fixed_texts(getattr(value, field.name))


class MarkedText:
    """The text of an output in which special tokens of a format show as their marks."""

    def __init__(self, backend: Backend, special_tokens: Mapping[int, str]) -> None:
        self._spelling = backend.spelling()
        self._special_tokens = special_tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, token_ids: Sequence[int]) -> str:
        """The text that these tokens complete; a character that is never finished is left out."""
        pieces: list[str] = []
        for token_id in token_ids:
            mark = self._special_tokens.get(token_id)
            if mark is None:
                pieces.append(self._decoder.decode(self._spelling.bytes_of((token_id,))))
            else:
                pieces.append(self._decoder.decode(b"", True) + mark)
        return "".join(pieces)
