"""Lark's dialect. The `lark` package reads the grammar: imports, templates, terminals made of terminals.

The language is that of Lark's Earley parser with `lexer="dynamic_complete"`: any way of splitting a text into
terminals counts. Priorities choose among derivations and change no language. A terminal with lazy quantifiers
ends as soon as it can. Ignored terminals may stand before, between and after the others. Look-around and word
boundaries see a terminal's own text alone (Lark lets them see its surroundings); where that leaves a way through the
terminal no text at all, the grammar is refused.
"""

from __future__ import annotations

from hashlib import blake2b

from lark import exceptions
from lark.grammar import NonTerminal
from lark.grammar import Terminal as LarkTerminal
from lark.lexer import TerminalDef
from lark.load_grammar import load_grammar

from sgrt_grammars.constraint import ContextFree, RegexDialect
from sgrt_grammars.errors import CompileLimitExceeded, InvalidConstraint, UnsupportedConstraint
from sgrt_grammars.notation.grammar import Body, Reference, Rules, Terminal, branch, loop, series
from sgrt_grammars.regex.assertions import looks_away
from sgrt_grammars.regex.compile import pattern_language
from sgrt_grammars.regex.language import SOME_TEXT, Language, both, chain, either, outside
from sgrt_grammars.regex.parser import parse_pattern

_LAZY = ("*?", "+?", "??", "}?")


def parse_lark(constraint: ContextFree) -> Rules:
    """The rules of a grammar text; the start rule is `start` unless the constraint names another."""
    start = constraint.start or "start"
    try:
        grammar, _ = load_grammar(constraint.text, "<grammar>", [], False)  # type: ignore[no-untyped-call]  # lark has no types here
        terminals, rules, ignored = grammar.compile([start], "*")
    except RecursionError as error:
        raise CompileLimitExceeded("the grammar nests too deep", limit="depth") from error
    except (exceptions.LarkError, ValueError, AssertionError) as error:
        raise InvalidConstraint(f"the grammar does not parse: {error}") from error
    languages = {terminal.name: _language(terminal) for terminal in terminals}
    blank: Body = (
        loop(Terminal(either(*(languages[name] for name in ignored))), 0, None) if ignored else series()
    )
    bodies: dict[str, list[Body]] = {}
    for rule in rules:
        name = str(rule.origin.name)
        parts = [_symbol(symbol, languages, blank) for symbol in rule.expansion]
        bodies.setdefault(name, []).append(series(*(part for pair in parts for part in pair)))
    digest = blake2b(constraint.text.encode(), digest_size=16).digest()
    whole = f"{start}!"
    named = {name: branch(*options) for name, options in bodies.items()}
    named[whole] = series(Reference(start), blank)
    return Rules(bodies=named, start=whole, key=("lark", digest))


def _symbol(symbol: object, languages: dict[str, Language], blank: Body) -> tuple[Body, ...]:
    """A symbol of an expansion; ignored text may stand before a terminal."""
    if isinstance(symbol, NonTerminal):
        return (Reference(str(symbol.name)),)
    assert isinstance(symbol, LarkTerminal), "an expansion holds rules and terminals alone"
    language = languages.get(str(symbol.name))
    if language is None:
        raise UnsupportedConstraint(
            f"the terminal {symbol.name} is declared without a pattern",
            keyword="%declare",
            hint="give it a pattern, or use a structural tag for special tokens",
        )
    return blank, Terminal(language)


def _language(terminal: TerminalDef) -> Language:
    text = terminal.pattern.to_regexp()
    language = pattern_language(
        text, RegexDialect.PYTHON, is_full=True, pointer=terminal.name, keyword=f"terminal {terminal.name}"
    )
    if looks_away(parse_pattern(text, RegexDialect.PYTHON)):
        raise UnsupportedConstraint(
            f"a look-around of {text!r} speaks of what stands around the terminal",
            pointer=terminal.name,
            keyword=f"terminal {terminal.name}",
            hint="say in the rules what may stand there",
        )
    if terminal.pattern.type == "re" and any(sign in text for sign in _LAZY):
        return both(language, outside(chain(language, SOME_TEXT)))
    return language
