"""What the next token may be: constraints, compiled against a vocabulary, give grammars and matchers."""

from sgrt_grammars.compiler import GrammarCompiler, compile_expression, compile_grammar
from sgrt_grammars.constraint import (
    AnyText,
    Choice,
    Constraint,
    ContextFree,
    GrammarDialect,
    JsonObject,
    JsonSchema,
    NumberSpelling,
    OneOf,
    PropertyOrder,
    Regex,
    RegexDialect,
    Repeat,
    Sequence,
    StructuralTag,
    Tag,
    Text,
    Token,
    Whitespace,
)
from sgrt_grammars.errors import (
    BudgetTooSmall,
    CompileLimitExceeded,
    GrammarError,
    InvalidConstraint,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from sgrt_grammars.grammar import Grammar
from sgrt_grammars.limits import Limits
from sgrt_grammars.mask import TokenMask, allowed_tokens, empty_mask, is_allowed, num_mask_words, set_tokens
from sgrt_grammars.matcher import Matcher, fill_masks
from sgrt_grammars.vocabulary import Vocabulary

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
    "empty_mask",
    "fill_masks",
    "is_allowed",
    "num_mask_words",
    "set_tokens",
]
