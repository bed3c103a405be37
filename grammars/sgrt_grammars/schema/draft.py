"""The drafts of JSON Schema that differ in what a keyword means."""

from __future__ import annotations

from enum import IntEnum

from sgrt_grammars.errors import UnsupportedConstraint


class Draft(IntEnum):
    """A draft, by the year or number of its publication; later ones compare greater."""

    DRAFT_4 = 4
    DRAFT_6 = 6
    DRAFT_7 = 7
    DRAFT_2019 = 2019
    DRAFT_2020 = 2020


_MARKS = {
    "draft-04": Draft.DRAFT_4,
    "draft-05": Draft.DRAFT_4,
    "draft-06": Draft.DRAFT_6,
    "draft-07": Draft.DRAFT_7,
    "2019-09": Draft.DRAFT_2019,
    "2020-12": Draft.DRAFT_2020,
}


def draft_of(schema: object) -> Draft:
    """The draft that `$schema` names; 2020-12 when it names none that is known.

    An unknown dialect's keywords are read as 2020-12 (with the spellings of older drafts understood).
    Drafts before 4 are refused: their keywords mean something else.
    """
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(uri, str):
        return Draft.DRAFT_2020
    for mark in ("draft-00", "draft-01", "draft-02", "draft-03"):
        if mark in uri:
            raise UnsupportedConstraint(
                f"{uri} is older than draft 4",
                pointer="/$schema",
                keyword="$schema",
                hint="use draft 4 or later",
            )
    return next((draft for mark, draft in _MARKS.items() if mark in uri), Draft.DRAFT_2020)
