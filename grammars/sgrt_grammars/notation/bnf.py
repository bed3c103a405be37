"""GBNF, and EBNF as xgrammar writes it: `name ::= alternatives`, with classes, groups and repetitions."""

from __future__ import annotations

from hashlib import blake2b

from sgrt_grammars.constraint import ContextFree, GrammarDialect
from sgrt_grammars.errors import CompileLimitExceeded, InvalidConstraint, UnsupportedConstraint
from sgrt_grammars.notation.grammar import Body, Mark, Reference, Rules, Terminal, branch, loop, series
from sgrt_grammars.regex.charset import EVERY_CHARACTER, CharSet
from sgrt_grammars.regex.language import characters, word

MAX_DEPTH = 100
MAX_REPEAT = 1_000_000
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "b": "\b", "a": "\a", "0": "\0"}
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


def parse_bnf(constraint: ContextFree) -> Rules:
    """The rules of a grammar text; the start rule is `root` unless the constraint names another."""
    text = constraint.text
    bodies = _Parser(text, constraint.dialect).rules()
    digest = blake2b(text.encode(), digest_size=16).digest()
    return Rules(bodies=bodies, start=constraint.start or "root", key=(constraint.dialect, digest))


class _Parser:
    """One pass over one grammar text."""

    def __init__(self, text: str, dialect: GrammarDialect) -> None:
        self._text = text
        self._is_gbnf = dialect is GrammarDialect.GBNF
        self._place = 0
        self._depth = 0

    def rules(self) -> dict[str, Body]:
        """All rules, by name."""
        bodies: dict[str, Body] = {}
        self._skip()
        while self._place < len(self._text):
            name = self._rule_name()
            if not name:
                raise self._error("a rule was expected (name ::= ...)")
            if name in bodies:
                raise self._error(f"the rule {name!r} is defined twice")
            bodies[name] = self._alternatives()
        if not bodies:
            raise InvalidConstraint("the grammar has no rules")
        return bodies

    def _error(self, message: str) -> InvalidConstraint:
        line = self._text.count("\n", 0, self._place) + 1
        column = self._place - self._text.rfind("\n", 0, self._place)
        return InvalidConstraint(message, pointer=f"{line}:{column}")

    def _skip(self) -> None:
        """Pass over blanks, line breaks and comments."""
        while self._place < len(self._text):
            if self._text[self._place].isspace():
                self._place += 1
            elif self._text[self._place] == "#":
                stop = self._text.find("\n", self._place)
                self._place = len(self._text) if stop < 0 else stop
            else:
                return

    def _take(self, sign: str) -> bool:
        if self._text.startswith(sign, self._place):
            self._place += len(sign)
            self._skip()
            return True
        return False

    def _rule_name(self) -> str:
        """The name of a rule that is defined here, read with its `::=`; "" when no rule begins here."""
        start = self._place
        name = self._name()
        self._skip()
        if name and self._take("::="):
            return name
        self._place = start
        return ""

    def _name(self) -> str:
        start = self._place
        while self._place < len(self._text) and self._text[self._place] in _NAME:
            self._place += 1
        return self._text[start : self._place]

    def _alternatives(self) -> Body:
        options = [self._series()]
        while self._take("|"):
            options.append(self._series())
        return branch(*options)

    def _series(self) -> Body:
        parts: list[Body] = []
        while self._place < len(self._text) and self._text[self._place] not in "|)":
            before = self._place
            if self._rule_name():  # the next rule begins
                self._place = before
                break
            parts.append(self._repeated(self._atom()))
        return series(*parts)

    def _repeated(self, atom: Body) -> Body:
        while True:
            self._skip()
            if self._take("*"):
                atom = loop(atom, 0, None)
            elif self._take("+"):
                atom = loop(atom, 1, None)
            elif self._take("?"):
                atom = loop(atom, 0, 1)
            elif self._take("{"):
                atom = loop(atom, *self._bounds())
            else:
                return atom

    def _bounds(self) -> tuple[int, int | None]:
        minimum = self._number()
        if self._take(","):
            maximum = None if self._text.startswith("}", self._place) else self._number()
        else:
            maximum = minimum
        if not self._take("}"):
            raise self._error("a repetition {m}, {m,} or {m,n} was expected")
        if maximum is not None and maximum < minimum:
            raise self._error("a repetition's maximum is below its minimum")
        return minimum, maximum

    def _number(self) -> int:
        start = self._place
        while self._place < len(self._text) and self._text[self._place] in "0123456789":
            self._place += 1
        digits = self._text[start : self._place]
        self._skip()
        if not digits:
            raise self._error("a number was expected")
        if len(digits) > 7 or int(digits) > MAX_REPEAT:
            raise CompileLimitExceeded(f"a repetition beyond {MAX_REPEAT} times", limit="repeat")
        return int(digits)

    def _atom(self) -> Body:
        match self._text[self._place]:
            case '"':
                return self._literal()
            case "[":
                return self._class()
            case ".":
                self._place += 1
                return Terminal(characters(EVERY_CHARACTER))
            case "(":
                return self._group()
            case "<" | "!":
                return self._token()
        name = self._name()
        if not name:
            raise self._error(f"unexpected {self._text[self._place]!r}")
        if self._text.startswith("(", self._place) and not self._is_gbnf:
            raise UnsupportedConstraint(
                f"the macro {name} is not supported", pointer=f"offset {self._place}", keyword=name,
                hint="use a structural tag, a regex or a schema beside the grammar",
            )  # fmt: skip
        return Reference(name)

    def _group(self) -> Body:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise CompileLimitExceeded(f"groups nest deeper than {MAX_DEPTH}", limit="depth")
        self._place += 1
        self._skip()
        if self._text.startswith("=", self._place):
            raise UnsupportedConstraint(
                "a look-ahead assertion is not supported", pointer=f"offset {self._place}", keyword="(=",
                hint="leave it out: the rules alone say what may follow",
            )  # fmt: skip
        body = self._alternatives()
        if not self._text.startswith(")", self._place):
            raise self._error("a closing parenthesis was expected")
        self._place += 1
        self._depth -= 1
        return body

    def _token(self) -> Body:
        """A special token by id, `<[id]>`."""
        stop = self._text.find("]>", self._place)
        digits = self._text[self._place + 2 : stop]
        is_id = (
            self._text.startswith("<[", self._place) and stop > 0 and digits.isdigit() and len(digits) < 10
        )
        if not is_id:
            raise UnsupportedConstraint(
                "a token is named by its id alone", pointer=f"offset {self._place}", keyword="<",
                hint="write <[id]>",
            )  # fmt: skip
        self._place = stop + 2
        return Mark(int(digits))

    def _literal(self) -> Body:
        self._place += 1
        letters: list[str] = []
        while not self._text.startswith('"', self._place):
            letters.append(self._character())
        self._place += 1
        return Terminal(word("".join(letters)))

    def _class(self) -> Body:
        self._place += 1
        is_negated = self._text.startswith("^", self._place)
        self._place += is_negated
        ranges: list[tuple[int, int]] = []
        while not self._text.startswith("]", self._place):
            low = self._character()
            high = low
            if self._text.startswith("-", self._place) and not self._text.startswith("-]", self._place):
                self._place += 1
                high = self._character()
            if ord(high) < ord(low):
                raise self._error(f"the range {low}-{high} is empty")
            ranges.append((ord(low), ord(high)))
        self._place += 1
        members = CharSet.from_ranges(ranges)
        return Terminal(characters(~members if is_negated else members))

    def _character(self) -> str:
        """One character of a literal or a class, maybe escaped."""
        if self._place >= len(self._text):
            raise self._error("the grammar ends inside a literal or a class")
        letter = self._text[self._place]
        self._place += 1
        if letter != "\\":
            if letter == "\n":
                raise self._error("a line ends inside a literal or a class")
            return letter
        escape = self._text[self._place : self._place + 1]
        self._place += 1
        if escape in _HEX_LENGTHS:
            return self._hexadecimal(_HEX_LENGTHS[escape])
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        if not escape or escape.isalnum():
            raise self._error(f"unknown escape \\{escape}")
        return escape

    def _hexadecimal(self, length: int) -> str:
        digits = self._text[self._place : self._place + length]
        if len(digits) < length or not all(digit in _HEX_DIGITS for digit in digits):
            raise self._error("an escape has too few digits")
        self._place += length
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise self._error(f"U+{digits} is not a character")
        return chr(code)
