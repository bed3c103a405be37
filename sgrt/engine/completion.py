"""Outputs, or longer pieces of them, put together from chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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


def gathered(chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    """The same outputs in one chunk each, in the order in which they were begun."""
    if len(chunks) == 1:
        return chunks
    parts: dict[int, list[Chunk]] = {}
    for chunk in chunks:
        parts.setdefault(chunk.index, []).append(chunk)
    return [own[0] if len(own) == 1 else _one(own) for own in parts.values()]


def _one(chunks: Sequence[Chunk]) -> Chunk:
    return replace(
        chunks[-1],
        token_ids=tuple(token for chunk in chunks for token in chunk.token_ids),
        text="".join(chunk.text for chunk in chunks),
        origins=tuple(origin for chunk in chunks for origin in chunk.origins),
        logprobs=tuple(info for chunk in chunks for info in chunk.logprobs),
    )


def _join(index: int, chunks: list[Chunk]) -> Completion:
    whole = _one(chunks)
    assert whole.finish is not None, "the last chunk of an output has its finish"
    return Completion(
        index=index,
        token_ids=whole.token_ids,
        text=whole.text,
        origins=whole.origins,
        logprobs=whole.logprobs,
        finish=whole.finish,
    )
