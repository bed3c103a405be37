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
from sgrt_grammars.expression import Expression, Literal, SpecialToken
from sgrt_grammars.notation.bnf import parse_bnf
from sgrt_grammars.notation.grammar import Rules
from sgrt_grammars.notation.write import grammar_expression
from sgrt_grammars.regex.compile import regex_expression
from sgrt_grammars.regex.spelling import literals
from sgrt_grammars.schema.lower import object_expression, schema_expression
from sgrt_grammars.structural import (
    any_text_expression,
    choice_expression,
    repeat_expression,
    sequence_expression,
    structural_expression,
    tag_expression,
)
from sgrt_grammars.vocabulary import Vocabulary


def lower(constraint: Constraint, vocabulary: Vocabulary) -> Expression:
    """The language of a constraint.

    Raises `InvalidConstraint`, `UnsupportedConstraint`, `UnsatisfiableConstraint` or `CompileLimitExceeded`.
    """
    try:
        return _combination(constraint, vocabulary)
    except RecursionError as error:
        raise CompileLimitExceeded("the constraint nests too deep", limit="depth") from error


def _combination(constraint: Constraint, vocabulary: Vocabulary) -> Expression:
    inner = partial(_combination, vocabulary=vocabulary)
    match constraint:
        case Sequence():
            return sequence_expression(constraint, inner)
        case OneOf():
            return choice_expression(constraint, inner)
        case Repeat():
            return repeat_expression(constraint, inner)
        case Tag():
            return tag_expression(constraint, inner)
        case StructuralTag():
            return structural_expression(constraint, inner)
        case _:
            return _single(constraint, vocabulary)


def _single(
    constraint: JsonSchema | JsonObject | Regex | Choice | ContextFree | Token | Text | AnyText,
    vocabulary: Vocabulary,
) -> Expression:
    match constraint:
        case JsonSchema():
            return schema_expression(constraint)
        case JsonObject():
            return object_expression(constraint)
        case Regex():
            return regex_expression(constraint)
        case Choice():
            return _choice(constraint)
        case ContextFree():
            return grammar_expression(_rules(constraint))
        case Token():
            return _token(constraint, vocabulary)
        case Text(text=text):
            return Literal(text.encode())
        case AnyText():
            return any_text_expression(constraint)


def _choice(constraint: Choice) -> Expression:
    if not constraint.options or "" in constraint.options:
        raise InvalidConstraint("a choice has at least one option, and none is empty")
    return literals(option.encode() for option in constraint.options)


def _token(constraint: Token, vocabulary: Vocabulary) -> Expression:
    if not 0 <= constraint.token_id < vocabulary.size:
        size = vocabulary.size
        raise InvalidConstraint(f"token {constraint.token_id} is not in the vocabulary of {size} tokens")
    return SpecialToken(constraint.token_id)


def _rules(constraint: ContextFree) -> Rules:
    """The rules of a grammar text. Lark is imported when the first of its grammars comes."""
    if constraint.dialect is GrammarDialect.LARK:
        rules: Rules = import_module("sgrt_grammars.notation.lark_dialect").parse_lark(constraint)
        return rules
    return parse_bnf(constraint)
