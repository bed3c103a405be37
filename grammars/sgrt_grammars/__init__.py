"""What the next token may be: constraints, compiled against a vocabulary, give grammars and matchers.

Names are looked up when they are first used (PEP 562): a program needs the constraints alone, not numpy or a compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sgrt_grammars.compiler import GrammarCompiler as GrammarCompiler
    from sgrt_grammars.compiler import compile_expression as compile_expression
    from sgrt_grammars.compiler import compile_grammar as compile_grammar
    from sgrt_grammars.constraint import AnyText as AnyText
    from sgrt_grammars.constraint import Choice as Choice
    from sgrt_grammars.constraint import Constraint as Constraint
    from sgrt_grammars.constraint import ContextFree as ContextFree
    from sgrt_grammars.constraint import GrammarDialect as GrammarDialect
    from sgrt_grammars.constraint import JsonObject as JsonObject
    from sgrt_grammars.constraint import JsonSchema as JsonSchema
    from sgrt_grammars.constraint import NumberSpelling as NumberSpelling
    from sgrt_grammars.constraint import OneOf as OneOf
    from sgrt_grammars.constraint import PropertyOrder as PropertyOrder
    from sgrt_grammars.constraint import Regex as Regex
    from sgrt_grammars.constraint import RegexDialect as RegexDialect
    from sgrt_grammars.constraint import Repeat as Repeat
    from sgrt_grammars.constraint import Sequence as Sequence
    from sgrt_grammars.constraint import StructuralTag as StructuralTag
    from sgrt_grammars.constraint import Tag as Tag
    from sgrt_grammars.constraint import Text as Text
    from sgrt_grammars.constraint import Token as Token
    from sgrt_grammars.constraint import Whitespace as Whitespace
    from sgrt_grammars.errors import BudgetTooSmall as BudgetTooSmall
    from sgrt_grammars.errors import CompileLimitExceeded as CompileLimitExceeded
    from sgrt_grammars.errors import GrammarError as GrammarError
    from sgrt_grammars.errors import InvalidConstraint as InvalidConstraint
    from sgrt_grammars.errors import UnsatisfiableConstraint as UnsatisfiableConstraint
    from sgrt_grammars.errors import UnsupportedConstraint as UnsupportedConstraint
    from sgrt_grammars.grammar import Grammar as Grammar
    from sgrt_grammars.limits import Limits as Limits
    from sgrt_grammars.mask import TokenMask as TokenMask
    from sgrt_grammars.mask import allowed_tokens as allowed_tokens
    from sgrt_grammars.mask import empty_mask as empty_mask
    from sgrt_grammars.mask import is_allowed as is_allowed
    from sgrt_grammars.mask import num_mask_words as num_mask_words
    from sgrt_grammars.mask import set_tokens as set_tokens
    from sgrt_grammars.matcher import Matcher as Matcher
    from sgrt_grammars.matcher import fill_masks as fill_masks
    from sgrt_grammars.notation.detect import context_free as context_free
    from sgrt_grammars.vocabulary import Vocabulary as Vocabulary

_HOMES = {
    "GrammarCompiler": "sgrt_grammars.compiler",
    "compile_expression": "sgrt_grammars.compiler",
    "compile_grammar": "sgrt_grammars.compiler",
    "AnyText": "sgrt_grammars.constraint",
    "Choice": "sgrt_grammars.constraint",
    "Constraint": "sgrt_grammars.constraint",
    "ContextFree": "sgrt_grammars.constraint",
    "GrammarDialect": "sgrt_grammars.constraint",
    "JsonObject": "sgrt_grammars.constraint",
    "JsonSchema": "sgrt_grammars.constraint",
    "NumberSpelling": "sgrt_grammars.constraint",
    "OneOf": "sgrt_grammars.constraint",
    "PropertyOrder": "sgrt_grammars.constraint",
    "Regex": "sgrt_grammars.constraint",
    "RegexDialect": "sgrt_grammars.constraint",
    "Repeat": "sgrt_grammars.constraint",
    "Sequence": "sgrt_grammars.constraint",
    "StructuralTag": "sgrt_grammars.constraint",
    "Tag": "sgrt_grammars.constraint",
    "Text": "sgrt_grammars.constraint",
    "Token": "sgrt_grammars.constraint",
    "Whitespace": "sgrt_grammars.constraint",
    "BudgetTooSmall": "sgrt_grammars.errors",
    "CompileLimitExceeded": "sgrt_grammars.errors",
    "GrammarError": "sgrt_grammars.errors",
    "InvalidConstraint": "sgrt_grammars.errors",
    "UnsatisfiableConstraint": "sgrt_grammars.errors",
    "UnsupportedConstraint": "sgrt_grammars.errors",
    "Grammar": "sgrt_grammars.grammar",
    "Limits": "sgrt_grammars.limits",
    "TokenMask": "sgrt_grammars.mask",
    "allowed_tokens": "sgrt_grammars.mask",
    "empty_mask": "sgrt_grammars.mask",
    "is_allowed": "sgrt_grammars.mask",
    "num_mask_words": "sgrt_grammars.mask",
    "set_tokens": "sgrt_grammars.mask",
    "Matcher": "sgrt_grammars.matcher",
    "fill_masks": "sgrt_grammars.matcher",
    "context_free": "sgrt_grammars.notation.detect",
    "Vocabulary": "sgrt_grammars.vocabulary",
}

__all__ = [
    "AnyText",
    "BudgetTooSmall",
    "Choice",
    "CompileLimitExceeded",
    "Constraint",
    "ContextFree",
    "Grammar",
    "GrammarCompiler",
    "GrammarDialect",
    "GrammarError",
    "InvalidConstraint",
    "JsonObject",
    "JsonSchema",
    "Limits",
    "Matcher",
    "NumberSpelling",
    "OneOf",
    "PropertyOrder",
    "Regex",
    "RegexDialect",
    "Repeat",
    "Sequence",
    "StructuralTag",
    "Tag",
    "Text",
    "Token",
    "TokenMask",
    "UnsatisfiableConstraint",
    "UnsupportedConstraint",
    "Vocabulary",
    "Whitespace",
    "allowed_tokens",
    "compile_expression",
    "compile_grammar",
    "context_free",
    "empty_mask",
    "fill_masks",
    "is_allowed",
    "num_mask_words",
    "set_tokens",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sgrt_grammars' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
