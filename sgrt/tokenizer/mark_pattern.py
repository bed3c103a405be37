"""An expression that finds special tokens in text.

Gemma has over six thousand of them, so the expression is factored like a tree of their beginnings: at any place of a
text only the branch that goes on is tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby


def mark_pattern(spellings: Iterable[str]) -> re.Pattern[str]:
    """Matches any of `spellings`, the longer one where another begins it; never matches when there are none."""
    ordered = sorted(filter(None, set(spellings)))
    return re.compile(_any_of(ordered) if ordered else r"(?!)")


def _any_of(spellings: list[str]) -> str:
    """Sorted, all different; an empty one says that the match may end here."""
    branches = [
        _branch(list(group))
        for _, group in groupby(filter(None, spellings), key=lambda spelling: spelling[0])
    ]
    if not branches:
        return ""
    joined = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return f"(?:{joined})?" if "" in spellings else joined


def _branch(spellings: list[str]) -> str:
    # They are sorted, so what the first and the last share, all share.
    first, last = spellings[0], spellings[-1]
    shared = next(
        (at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first)
    )
    return re.escape(first[:shared]) + _any_of([spelling[shared:] for spelling in spellings])
