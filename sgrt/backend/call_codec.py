"""Calls, chunks and descriptions as JSON and back: the native protocol between HttpBackend and a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sgrt.backend.constraint_codec import from_json, to_json
from sgrt.errors import BackendError, InvalidRequest
from sgrt_frontend.call import (
    Call,
    CallPlan,
    Chunk,
    Description,
    Finish,
    Origin,
    SamplingParams,
    Score,
    ScoreTerms,
    StopReason,
    TokenInfo,
    TokenLogprob,
    Usage,
)
from sgrt_grammars.constraint import Constraint

_SAMPLING = TypeAdapter(SamplingParams)
_PLAN = TypeAdapter(CallPlan)
_SAMPLING_FIELDS = frozenset(field.name for field in fields(SamplingParams))


def sampling_to_json(sampling: SamplingParams) -> dict[str, object]:
    """The fields that differ from their defaults."""
    default = SamplingParams()
    return {
        field.name: getattr(sampling, field.name)
        for field in fields(sampling)
        if getattr(sampling, field.name) != getattr(default, field.name)
    }


def sampling_from_json(value: Mapping[str, object]) -> SamplingParams:
    """Sampling parameters of a JSON object.

    Raises:
        InvalidRequest: a field is unknown, of the wrong type or out of range.
    """
    unknown = sorted(set(value) - _SAMPLING_FIELDS)
    if unknown:
        raise InvalidRequest(f"sampling.{unknown[0]}: no such field", param=f"sampling.{unknown[0]}")
    try:
        return _SAMPLING.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise _wrong(error, "sampling") from None


def _wrong(error: ValidationError, param: str) -> InvalidRequest:
    fault = error.errors(include_url=False, include_input=False)[0]
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, InvalidRequest):  # out of range: the value's own words
        if str(cause.param).startswith(f"{param}."):
            return cause
        return InvalidRequest(f"{param}.{cause}", param=f"{param}.{cause.param}")
    name = ".".join([param, *(str(part) for part in fault["loc"])])
    return InvalidRequest(f"{name}: {fault['msg']}", param=name)


def call_to_json(call: Call) -> dict[str, object]:
    """A call as the body of /generate."""
    return {
        "token_ids": list(call.prompt),
        "sampling": sampling_to_json(call.sampling),
        "constraint": None if call.constraint is None else to_json(call.constraint),
        "priority": call.priority,
        "deadline_s": call.deadline_s,
        "cache_salt": call.cache_salt or None,
        "label": call.label,
        "plan": None if call.plan is None else plan_to_json(call.plan),
        "interval_s": call.interval_s,
    }


def terms_to_json(terms: ScoreTerms) -> dict[str, object]:
    """The terms of scores as fields of the body of /score; what is as always is left out."""
    fields: dict[str, object] = {}
    if terms.priority:
        fields["priority"] = terms.priority
    if terms.cache_salt:
        fields["cache_salt"] = terms.cache_salt
    if terms.plan is not None:
        fields["plan"] = plan_to_json(terms.plan)
    return fields


def plan_to_json(plan: CallPlan) -> dict[str, object]:
    """Hints about a call's place among others."""
    return asdict(plan)


def plan_from_json(value: Mapping[str, object] | None) -> CallPlan | None:
    """The hints about a call's place among others, None for null.

    Raises:
        InvalidRequest: a field is of the wrong type or out of range.
    """
    if value is None:
        return None
    try:
        return _PLAN.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise _wrong(error, "plan") from None


def constraint_from_json(value: object) -> Constraint | None:
    """The constraint of a request, None for null.

    Raises:
        InvalidRequest: it is malformed; `param` says where.
    """
    return None if value is None else from_json(value)


def chunk_to_json(chunk: Chunk) -> dict[str, object]:
    """A chunk; what is empty is left out."""
    result: dict[str, object] = {"index": chunk.index}
    if chunk.token_ids:
        result["token_ids"] = list(chunk.token_ids)
    if chunk.text:
        result["text"] = chunk.text
    if chunk.origins:
        result["origins"] = [origin.value for origin in chunk.origins]
    if chunk.logprobs:
        result["logprobs"] = [
            [_pair(info.chosen), [_pair(other) for other in info.top]] for info in chunk.logprobs
        ]
    if chunk.finish is not None:
        result["finish"] = {
            "reason": chunk.finish.reason.value,
            "usage": asdict(chunk.finish.usage),
            "stop": chunk.finish.stop,
        }
    if chunk.cached_tokens is not None:
        result["cached_tokens"] = chunk.cached_tokens
    if chunk.queued_s is not None:
        result["queued_s"] = chunk.queued_s
    return result


def chunk_from_json(value: Mapping[str, Any]) -> Chunk:
    """The chunk of a JSON object that a server sent.

    Raises:
        BackendError: it is none.
    """
    try:
        return Chunk(
            index=int(value["index"]),
            token_ids=tuple(map(int, value.get("token_ids", ()))),
            text=str(value.get("text", "")),
            origins=tuple(map(Origin, value.get("origins", ()))),
            logprobs=tuple(
                TokenInfo(chosen=_logprob(chosen), top=tuple(map(_logprob, top)))
                for chosen, top in value.get("logprobs", ())
            ),
            finish=_finish(value.get("finish")),
            cached_tokens=None if value.get("cached_tokens") is None else int(value["cached_tokens"]),
            queued_s=None if value.get("queued_s") is None else float(value["queued_s"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BackendError(f"the server sent a chunk that cannot be read: {error}") from error


def description_from_json(value: Mapping[str, Any]) -> Description:
    """The description of a JSON object that a server sent.

    Raises:
        BackendError: it is none.
    """
    try:
        return Description(
            model=str(value["model"]),
            context_tokens=int(value["context_tokens"]),
            vocabulary_tokens=int(value["vocabulary_tokens"]),
            end_token_ids=tuple(map(int, value["end_token_ids"])),
            has_chat_template=bool(value["has_chat_template"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BackendError(f"the server's description cannot be read: {error}") from error


def score_to_json(score: Score) -> dict[str, object]:
    """A score; alternatives are left out where there are none."""
    result: dict[str, object] = {"logprobs": list(score.logprobs), "usage": asdict(score.usage)}
    if score.top:
        result["top"] = [[_pair(other) for other in place] for place in score.top]
    return result


def score_from_json(value: Mapping[str, Any]) -> Score:
    """The score of a JSON object that a server sent.

    Raises:
        BackendError: it is none.
    """
    try:
        return Score(
            logprobs=tuple(map(float, value["logprobs"])),
            usage=_usage(value["usage"]),
            top=tuple(tuple(map(_logprob, place)) for place in value.get("top", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BackendError(f"the server sent a score that cannot be read: {error}") from error


def _pair(token: TokenLogprob) -> list[float]:
    return [token.token_id, token.logprob]


def _logprob(pair: list[Any]) -> TokenLogprob:
    return TokenLogprob(token_id=int(pair[0]), logprob=float(pair[1]))


def _finish(value: Mapping[str, Any] | None) -> Finish | None:
    if value is None:
        return None
    return Finish(reason=StopReason(value["reason"]), usage=_usage(value["usage"]), stop=value.get("stop"))


def _usage(value: Mapping[str, Any]) -> Usage:
    return Usage(**{field.name: int(value[field.name]) for field in fields(Usage)})
