"""How the tokens of a whole prompt begin."""

from __future__ import annotations

from collections.abc import Sequence


def opened(begin: Sequence[int], token_ids: Sequence[int]) -> tuple[int, ...]:
    """A prompt's own tokens behind what every prompt begins with.

    A text that spells the begin tokens itself, as templates do, does not get them twice: no model was trained on that.
    """
    own = tuple(token_ids)
    return own if own[: len(begin)] == tuple(begin) else (*begin, *own)
