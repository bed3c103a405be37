"""The intermediate representation: what every front end lowers to and the automaton derives.

An expression denotes a language over bytes and special tokens. Front ends build plain immutable
nodes; the automaton interns them bottom-up, so structurally equal expressions of different grammars
become one state and share their masks. Nodes compare by identity on purpose: structural
equality is the interner's job, and hashing deep trees again and again would be quadratic.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """Exactly these bytes. `Literal(b"")` is the empty text."""

    data: bytes


@dataclass(frozen=True, slots=True, eq=False)
class ByteSet:
    """One byte out of a set. Bit `b` of `members` says whether byte `b` belongs; 0 is the empty language."""

    members: int


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Any one of these byte strings, as an alternation of literals in one piece."""

    options: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Concatenation:
    """The parts one after the other."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Alternation:
    """Any one of the options; the empty language when there is none."""

    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """`body` between `minimum` and `maximum` times; `maximum=None` is unbounded."""

    body: Expression
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Intersection:
    """Texts in every part. The parts are regular: no `Deferred`, `SpecialToken`, `Scope` or `Distinct`."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Complement:
    """Byte strings not in `body`, which is regular. Confine it with `Intersection` (valid UTF-8, say)."""

    body: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Deferred:
    """An expression built when it is first needed: recursion, and states with parameters.

    Two `Deferred` of equal `key` must denote the same language; `build` is called at most once per key.
    The key carries everything the language depends on (content, not object identity), so that
    equal parts of different grammars are one state. `is_satisfiable` vouches for at least one text over
    printable ASCII, so that the automaton need not build it to offer what stands before it. `build_short`
    makes a narrower expression that has a text if the whole has one, and a short one: where it is given, no other
    way to complete a text is looked for (an object whose keys may come in any order has too many).
    """

    key: Hashable
    build: Callable[[], Expression]
    is_satisfiable: bool = False
    build_short: Callable[[], Expression] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SchemaText:
    """A JSON Schema as it stands, for an automaton that writes its plain values by itself.

    Equal `key`s have equal values. `spelling` is what the values of all such texts have in common, and `value` writes
    the value of a subschema that is not plain.
    """

    key: Hashable
    text: bytes
    has_hidden_siblings: bool
    spelling: SchemaSpelling
    value: Callable[[str], Expression]


@dataclass(frozen=True, slots=True)
class SchemaSpelling:
    """How the values of schemas are written. `keywords` are those that say something about a value."""

    any_value: Expression
    number: Expression
    integer: Expression
    string: Expression
    character: Expression
    key_text: Expression
    space: Expression
    colon: Expression
    comma: Expression
    has_fixed_order: bool
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SchemaValue(Deferred):
    """The value of the subschema of `source` at a JSON pointer."""

    source: SchemaText
    pointer: str


@dataclass(frozen=True, slots=True, eq=False)
class SpecialToken:
    """One special token of the vocabulary, by id."""

    token_id: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Members:
    """Named members in a fixed order, any but the `required` ones left out: the inside of an object.

    A member is its name and its value, with `between` in between; `separator` stands between two, `end` after the last (the empty text if there
    is none). `free`, if anything, may take the place of one further member and all that follows, `end` included. The
    names are distinct, and none is the beginning of another. From place `sound_from` on all required members have
    texts over printable ASCII, so that the automaton need not build them to offer what stands before them.
    """

    key: Hashable
    names: tuple[bytes, ...]
    values: tuple[Expression, ...]
    required: tuple[bool, ...]
    between: Expression
    separator: Expression
    end: Expression
    free: Expression
    sound_from: int


class Canonical(Enum):
    """How captured text is brought to the form in which `Distinct` compares it."""

    BYTES = "bytes"
    JSON = "json"


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """`body` with a fresh, empty register of captured texts, dropped at the end of `body`."""

    body: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Distinct:
    """`body`, whose text must differ from every text recorded in the innermost `Scope`; then it is recorded.

    `canonical=JSON` compares parsed JSON values (1 equals 1.0, key order is ignored): `uniqueItems`,
    duplicate keys with different escapes.
    """

    body: Expression
    canonical: Canonical


Expression = (
    Literal
    | Texts
    | ByteSet
    | Concatenation
    | Alternation
    | Repetition
    | Intersection
    | Complement
    | Deferred
    | Members
    | SpecialToken
    | Scope
    | Distinct
)

EMPTY_TEXT = Literal(b"")
NOTHING = Alternation(())
