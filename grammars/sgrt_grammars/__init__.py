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

_NAMES = {  # by the module they live in
    "sgrt_grammars.compiler": "GrammarCompiler compile_expression compile_grammar",
    "sgrt_grammars.constraint": "AnyText Choice Constraint ContextFree GrammarDialect JsonObject JsonSchema NumberSpelling OneOf "
    "PropertyOrder Regex RegexDialect Repeat Sequence StructuralTag Tag Text Token Whitespace",
    "sgrt_grammars.errors": "BudgetTooSmall CompileLimitExceeded GrammarError "
    "InvalidConstraint UnsatisfiableConstraint UnsupportedConstraint",
    "sgrt_grammars.grammar": "Grammar",
    "sgrt_grammars.limits": "Limits",
    "sgrt_grammars.mask": "TokenMask allowed_tokens empty_mask is_allowed num_mask_words set_tokens",
    "sgrt_grammars.matcher": "Matcher fill_masks",
    "sgrt_grammars.notation.detect": "context_free",
    "sgrt_grammars.vocabulary": "Vocabulary",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # checkers read the imports above
    __all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sgrt_grammars' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
