"""The front door of all front ends: any constraint becomes an expression."""

from __future__ import annotations

from sgrt_grammars.constraint import (
    Choice,
    Constraint,
    JsonObject,
    JsonSchema,
    Regex,
    Text,
    Token,
)
from sgrt_grammars.errors import InvalidConstraint, UnsupportedConstraint
from sgrt_grammars.expression import Expression, Literal, SpecialToken
from sgrt_grammars.regex.compile import regex_expression
from sgrt_grammars.regex.spelling import literals
from sgrt_grammars.schema.lower import object_expression, schema_expression
from sgrt_grammars.vocabulary import Vocabulary


def lower(constraint: Constraint, vocabulary: Vocabulary) -> Expression:
    """The language of a constraint.

    Raises `InvalidConstraint`, `UnsupportedConstraint`, `UnsatisfiableConstraint` or `CompileLimitExceeded`.
    """
    match constraint:
        case JsonSchema():
            return schema_expression(constraint)
        case JsonObject():
            return object_expression(constraint)
        case Regex():
            return regex_expression(constraint)
        case Choice(options=options):
            if not options or "" in options:
                raise InvalidConstraint("a choice has at least one option, and none is empty")
            return literals(option.encode() for option in options)
        case Text(text=text):
            return Literal(text.encode())
        case Token(token_id=token_id):
            return SpecialToken(token_id)
        case _:
            raise UnsupportedConstraint(f"{type(constraint).__name__} is not lowered yet")
