"""From grammars to expressions: every rule is built when it is first reached."""

from __future__ import annotations

from functools import partial

from sgrt_grammars.errors import InvalidConstraint
from sgrt_grammars.expression import (
    Alternation,
    Concatenation,
    Deferred,
    Expression,
    Repetition,
    SpecialToken,
)
from sgrt_grammars.notation.grammar import (
    Body,
    Branch,
    Loop,
    Mark,
    Reference,
    Rules,
    Series,
    Terminal,
    factored,
)
from sgrt_grammars.notation.nullable import references
from sgrt_grammars.notation.recursion import without_left_recursion
from sgrt_grammars.regex.spelling import UTF8, spell


def grammar_expression(rules: Rules) -> Expression:
    """The texts that the start rule derives, in UTF-8."""
    if rules.start not in rules.bodies:
        raise InvalidConstraint(f"the grammar has no start rule {rules.start!r}")
    for name, body in rules.bodies.items():
        for used in references(body):
            if used.name not in rules.bodies:
                raise InvalidConstraint(f"the rule {name!r} uses {used.name!r}, which is not defined")
    plain = without_left_recursion(rules)
    return _rule(plain, plain.start)


def _rule(rules: Rules, name: str) -> Expression:
    return Deferred((*rules.key, name), lambda: _write(rules, factored(rules.bodies[name])))


def _write(rules: Rules, body: Body) -> Expression:
    write = partial(_write, rules)
    match body:
        case Terminal(language):
            return spell(language, UTF8)
        case Mark(token_id):
            return SpecialToken(token_id)
        case Reference(name):
            return _rule(rules, name)
        case Series(parts):
            return Concatenation(tuple(write(part) for part in parts))
        case Branch(options):
            return Alternation(tuple(write(option) for option in options))
        case Loop(inner, minimum, maximum):
            return Repetition(write(inner), minimum, maximum)
