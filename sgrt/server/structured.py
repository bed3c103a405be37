"""From `response_format` and `structured_outputs` to a Constraint, and the field it came from.

One request has at most one constraint. What is asked for is enforced or refused, `strict` or not.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from sgrt.server.config import Limits
from sgrt.server.errors import bad_request
from sgrt.server.structural_tag import structural_tag
from sgrt.server.wire.fields import ResponseFormat, SamplingFields, StructuredOutputs
from sgrt_grammars.constraint import (
    AnyText,
    Choice,
    Constraint,
    JsonObject,
    JsonSchema,
    Regex,
    Whitespace,
)
from sgrt_grammars.notation.detect import context_free


class Wanted(NamedTuple):
    """A constraint and the dotted path of the request field that asked for it.

    `is_free`: it says what text must not hold; text that the budget ends was cut, as free text is.
    """

    constraint: Constraint
    param: str
    is_free: bool = False


def wanted_output(request: SamplingFields, limits: Limits) -> Wanted | None:
    """The constraint a request puts on its answer, or None.

    Raises:
        ApiError: more than one constraint, an empty one, or one that is not supported.
    """
    by_format = _from_response_format(request.response_format, limits)
    by_kind = _from_structured_outputs(request.structured_outputs, limits)
    by_words = _without_words(request.bad_words, limits)
    if by_format and by_kind:
        raise bad_request(
            "response_format and structured_outputs both constrain the answer; send one",
            param="structured_outputs",
        )
    if by_words and (by_format or by_kind):
        raise bad_request("bad_words applies to free text alone; say it in the constraint", param="bad_words")
    return by_format or by_kind or by_words


def schema_text(schema: object, *, limits: Limits, param: str) -> str:
    """A schema as JSON text in the order it came.

    Raises:
        ApiError: it is larger than the limit.
    """
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    if len(text) > limits.schema_bytes:
        raise bad_request(
            f"{param}: the schema has {len(text)} characters; at most {limits.schema_bytes} are taken",
            param=param,
            code="constraint_too_complex",
        )
    return text


def _without_words(words: list[str] | None, limits: Limits) -> Wanted | None:
    """Text that holds none of `words`, whatever tokens they are spelled with."""
    if not words:
        return None
    if len(words) > limits.bad_words:
        raise bad_request(f"bad_words: at most {limits.bad_words} are taken", param="bad_words")
    if any(not word or len(word) > limits.stop_string_chars for word in words):
        raise bad_request(
            f"bad_words: a word has 1 to {limits.stop_string_chars} characters", param="bad_words"
        )
    return Wanted(AnyText(without=tuple(words)), "bad_words", is_free=True)


def _from_response_format(wanted: ResponseFormat | None, limits: Limits) -> Wanted | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return Wanted(JsonObject(), "response_format")
    if wanted.type == "structural_tag":
        tag = structural_tag(wanted.model_dump(by_alias=True, exclude_none=True), param="response_format")
        return Wanted(tag, "response_format")
    if wanted.json_schema is None or wanted.json_schema.schema_ is None:
        raise bad_request(
            "response_format of type json_schema needs json_schema.schema",
            param="response_format.json_schema.schema",
        )
    param = "response_format.json_schema.schema"
    return Wanted(JsonSchema(text=schema_text(wanted.json_schema.schema_, limits=limits, param=param)), param)


def _from_structured_outputs(wanted: StructuredOutputs | None, limits: Limits) -> Wanted | None:
    if wanted is None:
        return None
    _refuse_unenforced(wanted)
    whitespace = Whitespace.FLEXIBLE if wanted.disable_any_whitespace is False else Whitespace.COMPACT
    found = [
        kind
        for kind in ("json_", "regex", "choice", "grammar", "json_object", "structural_tag")
        if getattr(wanted, kind) not in (None, False) or (kind == "json_" and wanted.json_ is False)
    ]
    if len(found) != 1:
        names = ", ".join(kind.rstrip("_") for kind in found) or "none"
        raise bad_request(
            f"structured_outputs takes exactly one of json, regex, choice, grammar, json_object and "
            f"structural_tag; got {names}",
            param="structured_outputs",
        )
    param = f"structured_outputs.{found[0].rstrip('_')}"
    return Wanted(_constraint_of_kind(wanted, found[0], whitespace, limits, param), param)


def _constraint_of_kind(
    wanted: StructuredOutputs, kind: str, whitespace: Whitespace, limits: Limits, param: str
) -> Constraint:
    if kind == "json_":
        schema = wanted.json_
        text = schema if isinstance(schema, str) else schema_text(schema, limits=limits, param=param)
        _check_size(text, limits, param)
        return JsonSchema(text=text, whitespace=whitespace)
    if kind == "regex":
        _check_size(wanted.regex or "", limits, param)
        return Regex(pattern=wanted.regex or "")
    if kind == "choice":
        if not wanted.choice or any(not option for option in wanted.choice):
            raise bad_request("choice: at least one option, none of them empty", param=param)
        return Choice(options=tuple(wanted.choice))
    if kind == "grammar":
        _check_size(wanted.grammar or "", limits, param)
        return context_free(wanted.grammar or "")
    if kind == "json_object":
        return JsonObject(whitespace=whitespace)
    return structural_tag(_object(wanted.structural_tag, param), param=param)


def _refuse_unenforced(wanted: StructuredOutputs) -> None:
    for name in ("whitespace_pattern", "disable_additional_properties"):
        if getattr(wanted, name) not in (None, False):
            raise bad_request(
                f"structured_outputs.{name} is not supported; say it in the schema",
                param=f"structured_outputs.{name}",
                code="unsupported_field",
            )


def _check_size(text: str, limits: Limits, param: str) -> None:
    if not text:
        raise bad_request(f"{param}: must not be empty", param=param)
    if len(text) > limits.schema_bytes:
        raise bad_request(
            f"{param}: {len(text)} characters; at most {limits.schema_bytes} are taken",
            param=param,
            code="constraint_too_complex",
        )


def _object(value: object, param: str) -> dict[str, object]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (json.JSONDecodeError, RecursionError) as error:
            raise bad_request(f"{param}: not JSON ({error})", param=param) from None
    if not isinstance(value, dict):
        raise bad_request(f"{param}: must be an object", param=param)
    return value
