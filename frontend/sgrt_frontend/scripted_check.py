"""Whether a scripted answer satisfies a call's constraint, as far as that can be told without a grammar."""

from __future__ import annotations

import json
import re

import jsonschema

from sgrt_grammars.constraint import (
    AnyText,
    Choice,
    Constraint,
    JsonObject,
    JsonSchema,
    OneOf,
    Regex,
    RegexDialect,
    Repeat,
    Sequence,
    Tag,
    Text,
)


def violation(constraint: Constraint | None, text: str) -> str:
    """What is wrong with the text; "" when it satisfies the constraint or that cannot be told."""
    if constraint is None:
        return ""
    if isinstance(constraint, JsonSchema | JsonObject):
        return _json_violation(constraint, text)
    if isinstance(constraint, Choice):
        return "" if text in constraint.options else f"it is none of {list(constraint.options)}"
    pattern = pattern_of(constraint)
    if pattern is None or re.fullmatch(pattern, text, re.DOTALL):
        return ""
    return f"it does not match {pattern}"


def _json_violation(constraint: JsonSchema | JsonObject, text: str) -> str:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return f"it is not JSON: {error}"
    if isinstance(constraint, JsonObject):
        return "" if isinstance(value, dict) else "it is not a JSON object"
    validator = jsonschema.Draft202012Validator(json.loads(constraint.text))
    problem = next(iter(validator.iter_errors(value)), None)
    return "" if problem is None else f"at {problem.json_path}: {problem.message}"


def pattern_of(constraint: Constraint) -> str | None:
    """A Python regular expression for the constraint, if one is easily found."""
    if isinstance(constraint, Text):
        return re.escape(constraint.text)
    if isinstance(constraint, Regex):
        return f"(?:{constraint.pattern})" if constraint.dialect is RegexDialect.PYTHON else None
    if isinstance(constraint, Choice):
        return "(?:" + "|".join(map(re.escape, constraint.options)) + ")"
    if isinstance(constraint, AnyText):
        without = "|".join(map(re.escape, constraint.without))
        return rf"(?:(?!{without})[\s\S])*" if without else r"[\s\S]*"
    if isinstance(constraint, Sequence | OneOf):
        parts = constraint.parts if isinstance(constraint, Sequence) else constraint.options
        return _joined(parts, "" if isinstance(constraint, Sequence) else "|")
    if isinstance(constraint, Tag):
        return _joined((constraint.begin, constraint.body, constraint.end), "")
    if isinstance(constraint, Repeat) and not constraint.separator:
        body = pattern_of(constraint.body)
        most = "" if constraint.maximum is None else constraint.maximum
        return None if body is None else f"(?:{body}){{{constraint.minimum},{most}}}"
    return None


def _joined(parts: tuple[Constraint, ...], separator: str) -> str | None:
    patterns = [pattern_of(part) for part in parts]
    if any(pattern is None for pattern in patterns):
        return None
    return "(?:" + separator.join(pattern for pattern in patterns if pattern is not None) + ")"
