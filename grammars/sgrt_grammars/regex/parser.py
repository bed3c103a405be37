"""The parser of patterns: Python's `re` and ECMA-262 with the `u` flag, in one recursive descent.

ECMA patterns are read leniently where the `u` flag is strict without changing a meaning: identity escapes of
punctuation, and braces or brackets that open nothing, stand for themselves.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from sgrt_grammars.constraint import RegexDialect
from sgrt_grammars.regex import classes
from sgrt_grammars.regex.charset import EVERY_CHARACTER, CharSet
from sgrt_grammars.regex.errors import PatternError, PatternRefused, PatternTooDeep
from sgrt_grammars.regex.escapes import EscapeReader
from sgrt_grammars.regex.language import (
    EMPTY,
    Chars,
    Language,
    characters,
    either,
    word,
)
from sgrt_grammars.regex.syntax import (
    TEXT_END,
    TEXT_START,
    Look,
    Pattern,
    Side,
    fork,
    line_end,
    line_start,
    loop,
    row,
    word_boundary,
)

MAX_DEPTH = 100
MAX_REPEAT = 1_000_000
MAX_LENGTH = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The modifiers in force at a place of the pattern."""

    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    verbose: bool = False
    ascii_only: bool = False


_FLAG_NAMES = {
    "i": "ignore_case",
    "m": "multiline",
    "s": "dot_all",
    "x": "verbose",
    "a": "ascii_only",
    "u": "",
}
_ECMA_FLAGS = "ims"
_EDGES = ("\\b", "\\B", "\\A", "\\Z")


def parse_pattern(text: str, dialect: RegexDialect) -> Pattern:
    """Parse a pattern. Raises `PatternError`, `PatternRefused` or `PatternTooDeep`."""
    if len(text) > MAX_LENGTH:
        raise PatternTooDeep(f"a pattern of {len(text)} characters", limit="length")
    return _Parser(text, dialect).parse()


class _Parser:
    """One pass over one pattern."""

    def __init__(self, text: str, dialect: RegexDialect) -> None:
        self._text = text
        self._is_python = dialect is RegexDialect.PYTHON
        self._place = 0
        self._depth = 0
        self._escapes = EscapeReader(text, dialect)

    def parse(self) -> Pattern:
        flags = self._leading_flags(Flags())
        pattern = self._alternatives(flags)
        if self._place < len(self._text):
            raise PatternError("unbalanced parenthesis", self._place)
        return pattern

    # Reading characters.

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._place)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self._place += len(text)
            return True
        return False

    def _until(self, end: str, what: str) -> str:
        stop = self._text.find(end, self._place)
        if stop < 0:
            raise PatternError(f"missing {end}, unterminated {what}", self._place)
        found = self._text[self._place : stop]
        self._place = stop + len(end)
        return found

    # Structure.

    def _alternatives(self, flags: Flags) -> Pattern:
        options = [self._row(flags)]
        while self._take("|"):
            options.append(self._row(flags))
        return fork(options)

    def _row(self, flags: Flags) -> Pattern:
        parts: list[Pattern] = []
        while self._place < len(self._text) and self._text[self._place] not in "|)":
            if flags.verbose and self._skip_blank():
                continue
            if self._skip_comment():
                continue
            is_edge = self._text[self._place] in "^$" or self._text[self._place : self._place + 2] in _EDGES
            atom = self._atom(flags)
            parts.append(self._quantified(atom, flags, is_edge=is_edge))
        return row(parts)

    def _skip_blank(self) -> bool:
        if self._text[self._place] in " \t\n\r\f\v":
            self._place += 1
            return True
        if self._take("#"):
            stop = self._text.find("\n", self._place)
            self._place = len(self._text) if stop < 0 else stop + 1
            return True
        return False

    def _skip_comment(self) -> bool:
        if self._is_python and self._take("(?#"):
            self._until(")", "comment")
            return True
        return False

    def _quantified(self, atom: Pattern, flags: Flags, *, is_edge: bool) -> Pattern:
        if flags.verbose:
            while self._place < len(self._text) and self._skip_blank():
                pass
        start = self._place
        bounds = self._quantifier()
        if bounds is None:
            return atom
        minimum, maximum = bounds
        if maximum is not None and maximum < minimum:
            raise PatternError("min repeat greater than max repeat", start)
        if max(minimum, maximum or 0) > MAX_REPEAT:
            raise PatternTooDeep(f"a repetition beyond {MAX_REPEAT} times", limit="repeat")
        if is_edge:
            raise PatternError("nothing to repeat", start)
        if not self._take("?") and self._is_python and self._peek("+"):
            raise PatternRefused("possessive quantifiers are not supported", hint="drop the trailing +")
        before = self._place
        if self._quantifier() is not None:
            raise PatternError("multiple repeat", before)
        return loop(atom, minimum, maximum)

    def _quantifier(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        if not self._peek("{"):
            return None
        stop = self._text.find("}", self._place)
        inner = self._text[self._place + 1 : stop] if stop > 0 else ""
        low, comma, high = inner.partition(",")
        is_open = comma == "," and self._is_python and not low
        if not (is_open or _is_number(low)) or not (high == "" or _is_number(high)):
            return None
        self._place = stop + 1
        minimum = int(low[:9] or "0") if len(low) < 9 else MAX_REPEAT + 1
        if not comma:
            return minimum, minimum
        return minimum, (int(high) if len(high) < 9 else MAX_REPEAT + 1) if high else None

    def _atom(self, flags: Flags) -> Pattern:
        start = self._place
        character = self._text[start]
        match character:
            case "(":
                return self._group(flags)
            case "[":
                self._place += 1
                return characters(self._fold(self._class(flags), flags))
            case ".":
                self._place += 1
                return Chars(self._dot(flags))
            case "^":
                self._place += 1
                return line_start(self._terminators()) if flags.multiline else TEXT_START
            case "$":
                self._place += 1
                return self._end(flags)
            case "\\":
                return self._escape(flags)
            case "*" | "+" | "?":
                raise PatternError("nothing to repeat", start)
        if character == "{" and self._quantifier() is not None:
            raise PatternError("nothing to repeat", start)
        self._place = start + 1
        return self._literal(character, flags)

    def _literal(self, character: str, flags: Flags) -> Language:
        if 0xD800 <= ord(character) < 0xE000:
            raise PatternRefused("a surrogate is not a character", hint="write the character it is half of")
        if flags.ignore_case:
            folded = self._fold(CharSet.of(character), flags)
            return word(character) if folded.size == 1 else Chars(folded)
        return word(character)

    def _fold(self, members: CharSet, flags: Flags) -> CharSet:
        return classes.ignoring_case(members, ascii_only=flags.ascii_only) if flags.ignore_case else members

    def _terminators(self) -> CharSet:
        return classes.LINE_FEED if self._is_python else classes.ECMA_LINE_TERMINATORS

    def _dot(self, flags: Flags) -> CharSet:
        return EVERY_CHARACTER if flags.dot_all else ~self._terminators()

    def _end(self, flags: Flags) -> Pattern:
        if flags.multiline:
            return line_end(self._terminators())
        if self._is_python:
            last_line = either(EMPTY, word("\n"))
            return Look(Side.AHEAD, False, row([last_line, TEXT_END]))
        return TEXT_END

    # Groups.

    def _group(self, flags: Flags) -> Pattern:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PatternTooDeep(f"groups nest deeper than {MAX_DEPTH}", limit="depth")
        start = self._place
        self._place += 1
        look, inner_flags = self._group_kind(flags)
        body = self._alternatives(inner_flags)
        if not self._take(")"):
            raise PatternError("missing ), unterminated subpattern", start)
        self._depth -= 1
        return body if look is None else Look(*look, body)

    def _group_kind(self, flags: Flags) -> tuple[tuple[Side, bool] | None, Flags]:
        """Read what follows an opening parenthesis: the side and sign of an assertion, and the flags inside."""
        if not self._take("?"):
            return None, flags
        looks = {
            "<=": (Side.BEHIND, False),
            "<!": (Side.BEHIND, True),
            "=": (Side.AHEAD, False),
            "!": (Side.AHEAD, True),
        }
        for sign, look in looks.items():
            if self._take(sign):
                return look, flags
        if self._take(":"):
            return None, flags
        name_sign = "P<" if self._is_python else "<"
        if self._take(name_sign):
            self._group_name(self._until(">", "name"))
            return None, flags
        return None, self._scoped_flags(flags)

    def _group_name(self, name: str) -> None:
        if not name.replace("$", "_").isidentifier():
            raise PatternError(f"bad group name {name!r}", self._place)

    def _scoped_flags(self, flags: Flags) -> Flags:
        start = self._place
        if self._is_python and (self._peek("P=") or self._peek("(")):
            raise PatternRefused(
                "backreferences and conditions are not regular", hint="spell out the alternatives"
            )
        if self._is_python and self._peek(">"):
            raise PatternRefused("atomic groups are not supported", hint="use a plain group")
        stop = start
        while stop < len(self._text) and self._text[stop] not in ":)":
            stop += 1
        if stop >= len(self._text) or self._text[stop] != ":":
            raise PatternError("unknown group, or flags that are not at the start of the pattern", start)
        self._place = stop + 1
        return self._with_flags(self._text[start:stop], flags, start)

    def _leading_flags(self, flags: Flags) -> Flags:
        while self._is_python and self._peek("(?"):
            stop = self._text.find(")", self._place)
            letters = self._text[self._place + 2 : stop]
            if stop < 0 or not letters.isalpha():
                break
            flags = self._with_flags(letters, flags, self._place)
            self._place = stop + 1
        return flags

    def _with_flags(self, letters: str, flags: Flags, place: int) -> Flags:
        on, _, off = letters.partition("-")
        known = _FLAG_NAMES if self._is_python else _ECMA_FLAGS
        if not all(letter in known for letter in on + off):
            raise PatternError(f"unknown flags {letters!r}", place)
        changes = {_FLAG_NAMES[letter]: True for letter in on if _FLAG_NAMES[letter]}
        changes |= {_FLAG_NAMES[letter]: False for letter in off if _FLAG_NAMES[letter]}
        if "u" in on:
            changes["ascii_only"] = False
        return replace(flags, **changes)

    # Escapes and classes.

    def _escape(self, flags: Flags) -> Pattern:
        letter = self._text[self._place + 1 : self._place + 2]
        if letter in ("b", "B"):
            self._place += 2
            is_ascii = flags.ascii_only or not self._is_python
            letters = classes.ASCII_WORD if is_ascii else classes.python_class("w")
            is_in_empty = not self._is_python or sys.version_info >= (3, 14)
            return word_boundary(letters, negated=letter == "B", is_in_empty=is_in_empty)
        if self._is_python and letter in ("A", "Z"):
            self._place += 2
            return TEXT_START if letter == "A" else TEXT_END
        escape = self._escapes.read(self._place, in_class=False, ascii_only=flags.ascii_only)
        self._place = escape.end
        if isinstance(escape.value, str):
            return self._literal(escape.value, flags)
        return characters(self._fold(escape.value, flags))

    def _class(self, flags: Flags) -> CharSet:
        """A bracketed class, whose opening bracket was read."""
        start = self._place
        negated = self._take("^")
        first = self._place
        members = CharSet(())
        ranges: list[tuple[int, int]] = []
        while True:
            if self._place >= len(self._text):
                raise PatternError("unterminated character set", start - 1)
            if self._peek("]") and (self._place > first or not self._is_python):
                self._place += 1
                break
            low = self._class_atom(flags)
            if self._peek("-") and not self._text.startswith("-]", self._place):
                before = self._place
                self._place += 1
                high = self._class_atom(flags)
                if isinstance(low, CharSet) or isinstance(high, CharSet):
                    raise PatternError("bad character range", before)
                if ord(high) < ord(low):
                    raise PatternError(f"bad character range {low}-{high}", before)
                ranges.append((ord(low), ord(high)))
            elif isinstance(low, CharSet):
                members |= low
            else:
                ranges.append((ord(low), ord(low)))
        found = self._fold(members | CharSet.from_ranges(ranges), flags)
        return ~found if negated else found

    def _class_atom(self, flags: Flags) -> str | CharSet:
        if self._peek("\\"):
            escape = self._escapes.read(self._place, in_class=True, ascii_only=flags.ascii_only)
            self._place = escape.end
            return escape.value
        if self._place >= len(self._text):
            raise PatternError("unterminated character set", self._place)
        self._place += 1
        return self._text[self._place - 1]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
