"""Schemas that the native arena reads, so that it writes their plain values by itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from ctypes import c_int32

from sgrt_grammars.expression import Expression, SchemaSpelling, SchemaText
from sgrt_grammars.native.library import INVALID, Library

_NODES = ("any_value", "number", "integer", "string", "character", "key_text", "space", "colon", "comma")
"""In the order of sgrt_spelling."""


class Schemas:
    """The schemas of one machine, each handed over once. `build` makes nodes of expressions."""

    def __init__(self, library: Library, machine: int, build: Callable[[Expression], int]) -> None:
        self._library = library
        self._machine = machine
        self._build = build
        self._numbers: dict[Hashable, int | None] = {}
        self._spellings: dict[SchemaSpelling, int] = {}
        self._texts: dict[int, SchemaText] = {}

    def number(self, source: SchemaText) -> int | None:
        """The number of a schema in the machine; None if it is not read there (a lone surrogate, say)."""
        if source.key not in self._numbers:
            self._numbers[source.key] = self._hand_over(source)
        return self._numbers[source.key]

    def value(self, number: int, pointer: str) -> Expression:
        """The value of a subschema that is not plain."""
        return self._texts[number].value(pointer)

    def _hand_over(self, source: SchemaText) -> int | None:
        spelling, text = self._spelling(source.spelling), source.text
        function = self._library.functions["schema"]
        number = function(self._machine, spelling, text, len(text), source.has_hidden_siblings)
        if number == INVALID:
            return None
        if number < 0:
            raise self._library.error(number)
        self._texts[number] = source
        return number

    def _spelling(self, spelling: SchemaSpelling) -> int:
        known = self._spellings.get(spelling)
        if known is None:
            nodes = (c_int32 * len(_NODES))(*(self._build(getattr(spelling, name)) for name in _NODES))
            keywords = "\n".join(spelling.keywords).encode()
            function = self._library.functions["spelling"]
            known = function(self._machine, nodes, keywords, spelling.has_fixed_order)
            if known < 0:
                raise self._library.error(known)
            self._spellings[spelling] = known
        return known
