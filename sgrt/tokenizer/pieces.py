"""SentencePiece vocabularies: the merges that the scores of their pieces imply."""

from __future__ import annotations

from collections.abc import Sequence


def merges_of(pieces: Sequence[tuple[str, float]]) -> list[tuple[str, str]]:
    """The merges that build pieces of two or more characters, best score first.

    SentencePiece joins, of all neighbours whose union is a piece, those whose union scores highest. The same as a
    ranked list of merges: every cut of every piece into two pieces, ordered by the score of the whole (equal
    scores by where the parts stand in the vocabulary).
    """
    ranks = {piece: rank for rank, (piece, _) in enumerate(pieces)}
    order = sorted(range(len(pieces)), key=lambda rank: -pieces[rank][1])
    merges: list[tuple[str, str]] = []
    for rank in order:
        piece = pieces[rank][0]
        cuts = [
            (left, right)
            for cut in range(1, len(piece))
            if (left := piece[:cut]) in ranks and (right := piece[cut:]) in ranks
        ]
        if len(cuts) > 1:
            cuts.sort(key=lambda parts: (ranks[parts[0]], ranks[parts[1]]))
        merges += cuts
    return merges
