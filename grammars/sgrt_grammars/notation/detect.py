"""Which of the three notations a grammar's text is written in."""

from __future__ import annotations

import re

from sgrt_grammars.constraint import ContextFree, GrammarDialect

# What a grammar begins with behind blanks and comments, if it is GBNF or EBNF. No text of Lark begins so.
_FIRST_RULE = re.compile(r"(?:\s|(?:#|//)[^\n]*(?:\n|$))*+[\w.-]++\s*+::=")
_ROOT_RULE = re.compile(r"^\s*root\s*::=", re.MULTILINE)


def context_free(text: str, *, start: str = "") -> ContextFree:
    """A grammar in the notation that its first rule shows: `::=` is GBNF where a rule is called `root`, else EBNF.

    Everything else is Lark. Who knows the notation writes a `ContextFree`.
    """
    if _FIRST_RULE.match(text) is None:
        dialect = GrammarDialect.LARK
    else:
        dialect = GrammarDialect.GBNF if _ROOT_RULE.search(text) else GrammarDialect.EBNF
    return ContextFree(text=text, dialect=dialect, start=start)
