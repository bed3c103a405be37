"""Chunks of the same output as one say what they said apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sgrt.engine.completion import collect, gathered
from sgrt_frontend.call import Chunk, Finish, Origin, StopReason, Usage

PIECES = st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 9), max_size=3)), max_size=12)


def chunks_of(pieces: Sequence[tuple[int, list[int]]]) -> list[Chunk]:
    """Chunks of three outputs in any order, and the end of each."""
    chunks = [
        Chunk(
            index=index, token_ids=tuple(ids), text="".join(map(str, ids)), origins=(Origin.FREE,) * len(ids)
        )
        for index, ids in pieces
    ]
    usage = Usage(prompt_tokens=1, cached_tokens=0, output_tokens=0)
    ends = [Chunk(index=index, finish=Finish(reason=StopReason.LENGTH, usage=usage)) for index in range(3)]
    return chunks + ends


@given(pieces=PIECES, cuts=st.sets(st.integers(1, 15)))
def test_gathered_chunks_add_up_to_the_same_outputs(
    pieces: list[tuple[int, list[int]]], cuts: set[int]
) -> None:
    chunks = chunks_of(pieces)
    borders = [0, *sorted(cut for cut in cuts if cut < len(chunks)), len(chunks)]
    batches = [gathered(chunks[start:end]) for start, end in pairwise(borders)]
    assert collect(chunk for batch in batches for chunk in batch) == collect(chunks)
    for batch in batches:
        assert len({chunk.index for chunk in batch}) == len(batch)
