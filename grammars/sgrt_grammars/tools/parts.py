"""The vocabulary of format descriptions: what stands inside a call, one part after the other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Fixed text, or the special token of that spelling.

    With `is_optional` it may be missing when read; with `is_written` false it is never generated.
    """

    text: str
    is_optional: bool = False
    is_written: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """White space of any length when read; `written` when generated."""

    written: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """The tool's name. It ends where one of `ends` begins; `prefix` may stand before it.

    `counter` is what precedes a running number after the name (`:` in `name:0`), which is not part of it.
    """

    ends: tuple[str, ...]
    prefix: str = ""
    counter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """Text that says nothing (a number, an id) and ends where one of `ends` begins; `written` if generated."""

    ends: tuple[str, ...]
    written: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonArguments:
    """The arguments as a JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCall:
    """One JSON object that holds name and arguments under these keys (the first of each is generated).

    With `needs_arguments` an object without them is no call.
    """

    name_keys: tuple[str, ...] = ("name",)
    argument_keys: tuple[str, ...] = ("arguments", "parameters")
    needs_arguments: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeAttribute:
    """The attribute of a value's tag: text before the type's word, the word for strings, text after it.

    `other` is the word for every other type, or empty when each type has its JSON name.
    """

    before: str
    string: str
    other: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedArguments:
    """Arguments as tags, one after the other: `before` key `between` value `after`.

    With `attribute` the tag tells the value's type, in place of `between`; without it strings are bare, and
    what else a text may be the tool's schema says. White space may stand between the texts of `between`. `padding` wraps a value in line breaks that are not part of it. `follows` are the
    texts of which one stands after `after` (white space aside): `after` alone may occur inside a value.
    `is_escaped` says that `&amp;` and `&quot;` stand for characters of a key.
    """

    before: str
    between: tuple[str, ...]
    after: str
    follows: tuple[str, ...]
    attribute: TypeAttribute | None = None
    padding: str = ""
    separator: str = "\n"
    is_escaped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonArguments:
    """Python keyword arguments between parentheses, the parentheses included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BareObject:
    """An object with bare keys whose strings stand between `quote` marks, braces included."""

    quote: str


Part = Mark | Space | Name | Word | JsonArguments | JsonCall | TaggedArguments | PythonArguments | BareObject
