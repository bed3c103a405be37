"""Constraint values: frozen descriptions of the text a generation may produce.

A constraint is pure data; compiling it against a `Vocabulary` gives a `Grammar`. Fields are checked where a constraint
is made: a member of an enum may be given as its value (`whitespace="flexible"`), a tuple as a list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sgrt_grammars.fields import (
    require_constraint,
    require_count,
    require_flag,
    require_text,
    take_constraints,
    take_member,
    take_texts,
)


class Whitespace(Enum):
    """Where JSON whitespace may stand: nowhere, or bounded runs after structural characters."""

    COMPACT = "compact"
    FLEXIBLE = "flexible"


class PropertyOrder(Enum):
    """The order in which an object's keys may be generated."""

    SCHEMA = "schema"
    ANY = "any"


class NumberSpelling(Enum):
    """How numbers are written.

    `CANONICAL`: integers as digits alone (`18`, never `18.0`, `1.8e1` or `-0`), so that any reader of integers takes
    them; other numbers in plain decimal, or as one digit, a fraction and an exponent. `ANY`: every form of JSON.
    `AUTO`: canonical where whitespace is compact, any where it is flexible: one spelling of the
    text, or all of them.
    """

    AUTO = "auto"
    CANONICAL = "canonical"
    ANY = "any"


class RegexDialect(Enum):
    """`PYTHON` is `re` with full match; `ECMA` is ECMA-262 with the `u` flag, searched."""

    PYTHON = "python"
    ECMA = "ecma"


class GrammarDialect(Enum):
    """The notation of a context-free grammar."""

    LARK = "lark"
    GBNF = "gbnf"
    EBNF = "ebnf"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchema:
    """JSON text valid against a schema. `text` is the schema as JSON text (parsed once, when compiled)."""

    text: str = field(kw_only=False)
    whitespace: Whitespace = Whitespace.COMPACT
    order: PropertyOrder = PropertyOrder.SCHEMA
    numbers: NumberSpelling = NumberSpelling.AUTO

    def __post_init__(self) -> None:
        require_text(
            self, "text", hint="gen(..., schema=...) takes a mapping, and json.dumps(...) writes one as text"
        )
        take_member(self, "whitespace", Whitespace)
        take_member(self, "order", PropertyOrder)
        take_member(self, "numbers", NumberSpelling)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObject:
    """Any JSON object."""

    whitespace: Whitespace = Whitespace.COMPACT

    def __post_init__(self) -> None:
        take_member(self, "whitespace", Whitespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regex:
    """Text that matches a regular expression."""

    pattern: str = field(kw_only=False)
    dialect: RegexDialect = RegexDialect.PYTHON

    def __post_init__(self) -> None:
        require_text(self, "pattern", hint="the `.pattern` of a compiled one is text")
        take_member(self, "dialect", RegexDialect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Exactly one of the given texts (at least one, none empty)."""

    options: tuple[str, ...] = field(kw_only=False)

    def __post_init__(self) -> None:
        take_texts(self, "options")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFree:
    """Text derivable from a grammar's start rule."""

    text: str = field(kw_only=False)
    dialect: GrammarDialect = GrammarDialect.LARK
    start: str = ""

    def __post_init__(self) -> None:
        require_text(self, "text")
        take_member(self, "dialect", GrammarDialect)
        require_text(self, "start")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One special token by id: a tool-call or reasoning mark that is a token, not text."""

    token_id: int = field(kw_only=False)

    def __post_init__(self) -> None:
        require_count(self, "token_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Literal text."""

    text: str = field(kw_only=False)

    def __post_init__(self) -> None:
        require_text(self, "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyText:
    """Any text that contains none of `without` (any text at all when it is empty)."""

    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        take_texts(self, "without")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """The parts one after the other."""

    parts: tuple[Constraint, ...] = field(kw_only=False)

    def __post_init__(self) -> None:
        take_constraints(self, "parts", Constraint)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """Any one of the options."""

    options: tuple[Constraint, ...] = field(kw_only=False)

    def __post_init__(self) -> None:
        take_constraints(self, "options", Constraint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """`body` between `minimum` and `maximum` times (None: unbounded), with `separator` between."""

    body: Constraint
    minimum: int = 0
    maximum: int | None = None
    separator: str = ""

    def __post_init__(self) -> None:
        require_constraint(self, "body", Constraint)
        require_count(self, "minimum")
        if self.maximum is not None:
            require_count(self, "maximum")
        require_text(self, "separator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """`begin`, then `body`, then `end`. Marks that are special tokens are `Token`s."""

    begin: Constraint
    body: Constraint
    end: Constraint

    def __post_init__(self) -> None:
        for name in ("begin", "body", "end"):
            require_constraint(self, name, Constraint)


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuralTag:
    """Free text in which every occurrence of a trigger opens one of its tags (tool calls in running text).

    A trigger is a prefix of the `begin` of its tags. `required` demands at least one tag;
    `stop_after_first` ends the text with the first tag.
    """

    triggers: tuple[str, ...]
    tags: tuple[Tag, ...]
    required: bool = False
    stop_after_first: bool = False

    def __post_init__(self) -> None:
        take_texts(self, "triggers")
        take_constraints(self, "tags", Tag)
        require_flag(self, "required")
        require_flag(self, "stop_after_first")


Constraint = (
    JsonSchema
    | JsonObject
    | Regex
    | Choice
    | ContextFree
    | Token
    | Text
    | AnyText
    | Sequence
    | OneOf
    | Repeat
    | Tag
    | StructuralTag
)
