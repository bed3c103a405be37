"""A whole output, put together from its chunks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sgrt_frontend.call import Chunk, Finish, Origin, TokenInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Output number `index` of a call."""

    index: int
    token_ids: tuple[int, ...]
    text: str
    origins: tuple[Origin, ...]
    logprobs: tuple[TokenInfo, ...]
    finish: Finish


def collect(chunks: Iterable[Chunk]) -> tuple[Completion, ...]:
    """The completions that a call's chunks add up to, by index."""
    parts: dict[int, list[Chunk]] = {}
    for chunk in chunks:
        parts.setdefault(chunk.index, []).append(chunk)
    return tuple(_join(index, parts[index]) for index in sorted(parts))


def _join(index: int, chunks: list[Chunk]) -> Completion:
    finish = chunks[-1].finish
    assert finish is not None, "the last chunk of an output has its finish"
    return Completion(
        index=index,
        token_ids=tuple(token for chunk in chunks for token in chunk.token_ids),
        text="".join(chunk.text for chunk in chunks),
        origins=tuple(origin for chunk in chunks for origin in chunk.origins),
        logprobs=tuple(info for chunk in chunks for info in chunk.logprobs),
        finish=finish,
    )
