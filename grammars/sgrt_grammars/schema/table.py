"""Writes `docs/schema.md` from the tables of the code: `python -m sgrt_grammars.schema.table > docs/schema.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from sgrt_grammars.schema import array_text, decimal_text, free_keys, json_text, number_text, shape
from sgrt_grammars.schema.check import MAX_NESTING, MAX_SUBSCHEMAS
from sgrt_grammars.schema.combine import MAX_COMBINATIONS
from sgrt_grammars.schema.emptiness import MAX_INTERSECTIONS
from sgrt_grammars.schema.formats import ENFORCED_FORMATS, REFUSED_FORMATS
from sgrt_grammars.schema.keywords import KEYWORDS, Keyword, Treatment
from sgrt_grammars.schema.lower import MAX_ANY_ORDER
from sgrt_grammars.schema.regex_format import MAX_GROUPS

_INTRODUCTION = """\
# JSON Schema

Every keyword below is enforced exactly, or the schema is refused with the JSON pointer, the keyword and a hint.
Nothing is dropped silently: what a schema forbids is never generated. What it allows can be generated, up to the
canonical forms listed here. This page is made from the code's own tables by
`python -m sgrt_grammars.schema.table`; a test holds it to them.

Drafts 4, 6, 7, 2019-09 and 2020-12 are told apart by `$schema`; without it a schema is read as 2020-12, with the
older spellings understood (boolean `exclusiveMinimum`, `items` as an array, `dependencies`, `definitions`).
Unknown keywords are annotations, as the specification says. A malformed schema (an operand of the wrong kind, a
pattern that does not parse, a reference to nothing) is an error that says where.
"""

_FORMS = f"""\
## Canonical forms

Where equality matters, or where one spelling serves, only one is generated.

- **Order of keys.** `schema` order (the default): declared keys in the order of the document (where `allOf`, `$ref`
  and other applicators stand before `properties`, theirs come first), then keys that only `required` or a
  dependency names, then free keys. `any` order: any. No key twice, in either.
- **Keys and strings of particular characters** (`enum`, `const`, `pattern`, `format`): every character stands
  for itself where JSON allows that, else for its short escape, else for `\\u00xx`. Strings that are free, or bounded in
  length alone, may use every legal escape; lone surrogates never occur.
- **Numbers.** `canonical` (the default where whitespace is compact, so in programs and on the server): integers are
  digits alone, `18` and never `18.0`, `1.8e1` or `-0`, so that every reader of integers takes them. Other numbers are
  plain decimals of up to {decimal_text.MAX_DIGITS} digits before and after the point, or one digit, a fraction and an exponent of at
  most {number_text.MAX_EXPONENT}; multiples are plain decimals; a fraction in `const` or `enum` is written plainly or as Python prints it.
  `any` (the default where whitespace is flexible, for checkers): also every other JSON form of a number without
  bounds that stays finite in double precision, and integers as `1.0` (up to {decimal_text.MAX_ZEROS} zeros), without bounds also as
  `1e2` (not in draft 4, where `1.0` is no integer). `JsonSchema(numbers=...)` chooses.
- **Whitespace.** `compact` (the default): none. `flexible`: at each place between tokens up to {json_text.MAX_SPACES} spaces, or a line break and up to
  {json_text.MAX_INDENT_SPACES} spaces or {json_text.MAX_INDENT_TABS} tabs; before a colon at most one space. Never more.
- **Unique items** compare as JSON values: `1` equals `1.0`, the order of keys does not matter.
"""

_PATTERNS = """\
## Regular expressions

`pattern` and `patternProperties` are ECMA-262 with the `u` flag, searched in the decoded string. Anchors, word
boundaries and look-around are exact where they are regular: look-behind of one character anywhere, of more before
any look-ahead. Refused: backreferences, and assertions inside long repetitions (other than `^` and `$`). Unicode
properties: general categories, `ASCII`, `Any`, `Assigned`, `White_Space`, `ASCII_Hex_Digit`; scripts are refused.
"""


def render() -> str:
    """The whole page."""
    parts = [
        _INTRODUCTION,
        "## Keywords\n\n" + _keywords(),
        _FORMS,
        "## Formats\n\n" + _formats(),
        _PATTERNS,
        "## Limits\n\n" + _limits(),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _keywords() -> str:
    order = {Treatment.ENFORCED: 0, Treatment.REFERENCE: 1, Treatment.ANNOTATION: 2}
    rows = sorted(KEYWORDS.values(), key=lambda row: order[row.treatment])
    return _table(("keyword", "applies to", "treatment", "note"), (_keyword(row) for row in rows))


def _keyword(row: Keyword) -> tuple[str, ...]:
    names = {
        Treatment.ENFORCED: "enforced",
        Treatment.REFERENCE: "followed",
        Treatment.ANNOTATION: "annotation: ignored",
    }
    return f"`{row.name}`", row.applies_to, names[row.treatment], row.note


def _formats() -> str:
    enforced = ", ".join(f"`{name}`" for name in ENFORCED_FORMATS)
    refused = "\n".join(f"- `{name}` is refused: {reason}." for name, reason in REFUSED_FORMATS.items())
    return f"""\
Enforced: {enforced}. Dates follow the calendar (years 0001 to 9999); leap seconds are written in UTC; a label of
a host name has no `--` in its third and fourth place, as whether it is a valid A-label is not a regular question.
`regex` is a pattern that both ECMA-262 (with `u`) and Python's `re` read: groups nest up to {MAX_GROUPS} deep, without names and
backreferences, look-around stands outside of groups and holds none, `m` and `n` of `{{m,n}}` have four digits at most, and braces and brackets that
open nothing are escaped. Where a format is excluded (`not`, another branch of `oneOf`), what is generated lacks it for
any reader: neither a host name nor its contrary has a label with such hyphens.

{refused}

Names outside the specification are annotations, as the specification says."""


def _limits() -> str:
    return f"""\
Compilation ends in a typed error rather than in a hang: at most {MAX_SUBSCHEMAS:,} subschemas, nested at most
{MAX_NESTING} deep; at most {shape.MAX_ALTERNATIVES:,} alternatives where subschemas are combined, and {MAX_COMBINATIONS:,} combinations in all;
at most {MAX_INTERSECTIONS:,} conjunctions tried to tell exclusive alternatives apart; in any order of keys at most {MAX_ANY_ORDER}
alternatives of objects for one value;
at most {free_keys.MAX_RULES} rules about the same free keys; divisors of at most {decimal_text.MAX_DIVISOR:,} after their point is moved away.
Unique items out of at most {array_text.MAX_ENUMERATED} scalars are tracked by name, others are captured and compared. What cannot be
enforced at all: the negation of `uniqueItems` for other items, remote references, and what is refused above."""


def main() -> None:
    """Write the page to standard output."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
