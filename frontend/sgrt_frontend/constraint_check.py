"""What is wrong with a constraint under any vocabulary, told at the line that wrote it."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from sgrt_frontend.errors import ConstraintError
from sgrt_frontend.stand_in import mentions_stand_in
from sgrt_grammars.constraint import Constraint, Regex, RegexDialect
from sgrt_grammars.errors import GrammarError

_KEPT_CONSTRAINTS = 512


def checked_regex(regex: Regex, param: str) -> Regex:
    """The regex itself, once it is known to be regular.

    Raises:
        ConstraintError: it does not parse, or has what no automaton keeps: references to groups, say.
    """
    # Imported when the first pattern comes: programs without one start without it.
    compiled = import_module("sgrt_grammars.regex.compile")
    try:
        compiled.pattern_language(
            regex.pattern,
            regex.dialect,
            is_full=regex.dialect is RegexDialect.PYTHON,
            pointer="",
            keyword=param,
        )
    except GrammarError as error:
        raise ConstraintError(str(error), param=param) from None
    return regex


def check_constraint(constraint: Constraint, param: str) -> None:
    """Refuse a constraint that no vocabulary could keep. Equal ones are looked at once, so a loop pays once.

    Raises:
        ConstraintError: a grammar does not parse, a schema contradicts itself or refers to another document, and
            whatever else a backend would refuse, except for what its vocabulary cannot spell. Of a constraint that is
            made of unknown text, while a program is planned, nothing is known.
    """
    try:
        _lower_once(constraint)
    except GrammarError as error:
        if mentions_stand_in(repr(constraint)):
            return
        pointer: str = getattr(error, "pointer", "")
        raise ConstraintError(f"{param}: {error}", param=param, pointer=pointer) from None


@lru_cache(maxsize=_KEPT_CONSTRAINTS)
def _lower_once(constraint: Constraint) -> None:
    """Keeps nothing of the expression: it belongs to the compiler that asks for it, under that compiler's lock."""
    import_module("sgrt_grammars.lowering").lower(constraint, None)
