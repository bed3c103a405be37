"""The front door of all front ends: any constraint becomes an expression."""

from __future__ import annotations

from functools import partial
from importlib import import_module

from sgrt_grammars.constraint import (
    AnyText,
    Choice,
    Constraint,
    ContextFree,
    GrammarDialect,
    JsonObject,
    JsonSchema,
    OneOf,
    Regex,
    Repeat,
    Sequence,
    StructuralTag,
    Tag,
    Text,
    Token,
)
from sgrt_grammars.errors import CompileLimitExceeded, InvalidConstraint
from sgrt_grammars.expression import Alternation, Expression, Literal, SpecialToken
from sgrt_grammars.vocabulary import Vocabulary


def lower(constraint: Constraint, vocabulary: Vocabulary | None) -> Expression:
    """The language of a constraint. Without a vocabulary, ids of special tokens are taken as they are.

    Raises `InvalidConstraint`, `UnsupportedConstraint`, `UnsatisfiableConstraint` or `CompileLimitExceeded`.
    """
    try:
        return _combination(constraint, vocabulary)
    except RecursionError as error:
        raise CompileLimitExceeded("the constraint nests too deep", limit="depth") from error


def _combination(constraint: Constraint, vocabulary: Vocabulary | None) -> Expression:
    inner = partial(_combination, vocabulary=vocabulary)
    match constraint:
        case Sequence():
            return _written("structural", "sequence_expression", constraint, inner)
        case OneOf():
            return _written("structural", "choice_expression", constraint, inner)
        case Repeat():
            return _written("structural", "repeat_expression", constraint, inner)
        case Tag():
            return _written("structural", "tag_expression", constraint, inner)
        case StructuralTag():
            return _written("structural", "structural_expression", constraint, inner)
        case _:
            return _single(constraint, vocabulary)


def _single(
    constraint: JsonSchema | JsonObject | Regex | Choice | ContextFree | Token | Text | AnyText,
    vocabulary: Vocabulary | None,
) -> Expression:
    match constraint:
        case JsonSchema():
            return _written("schema.lower", "schema_expression", constraint)
        case JsonObject():
            return _written("schema.lower", "object_expression", constraint)
        case Regex():
            return _written("regex.compile", "regex_expression", constraint)
        case Choice():
            return _choice(constraint)
        case ContextFree():
            return _written("notation.write", "grammar_expression", _rules(constraint))
        case Token():
            return _token(constraint, vocabulary)
        case Text(text=text):
            return Literal(text.encode())
        case AnyText():
            return _written("structural", "any_text_expression", constraint)


def _written(module: str, function: str, *operands: object) -> Expression:
    """What a front end makes of its constraint. It is imported when the first of these comes."""
    expression: Expression = getattr(import_module(f"sgrt_grammars.{module}"), function)(*operands)
    return expression


def _choice(constraint: Choice) -> Expression:
    if not constraint.options or "" in constraint.options:
        raise InvalidConstraint("a choice has at least one option, and none is empty")
    return Alternation(tuple(Literal(text) for text in sorted({one.encode() for one in constraint.options})))


def _token(constraint: Token, vocabulary: Vocabulary | None) -> Expression:
    if vocabulary is not None and not 0 <= constraint.token_id < vocabulary.size:
        size = vocabulary.size
        raise InvalidConstraint(f"token {constraint.token_id} is not in the vocabulary of {size} tokens")
    return SpecialToken(constraint.token_id)


def _rules(constraint: ContextFree) -> object:
    """The rules of a grammar text; a module of its own reads each family of dialects."""
    module, function = (
        ("lark_dialect", "parse_lark") if constraint.dialect is GrammarDialect.LARK else ("bnf", "parse_bnf")
    )
    rules: object = getattr(import_module(f"sgrt_grammars.notation.{module}"), function)(constraint)
    return rules
