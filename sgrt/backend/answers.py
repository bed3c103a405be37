"""What a server's answers mean: values, or the exceptions that the same faults raise in process.

Whatever stands at the other end may answer anything; what cannot be read is a `BackendError`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import httpx

from sgrt.errors import (
    BackendError,
    Cancelled,
    ConstraintError,
    ContextOverflow,
    DeadlineExceeded,
    InvalidRequest,
    Overloaded,
    SgrtError,
)

_Value = TypeVar("_Value")
_SHOWN_BYTES = 200
_RETRY_AFTER_S = 1.0  # where a server that is full does not say
_CONSTRAINT_CODES = frozenset(
    {
        "invalid_constraint",
        "unsupported_schema",
        "unsatisfiable_constraint",
        "budget_too_small",
        "constraint_too_complex",
    }
)


def value_of(response: httpx.Response, read: Callable[[Mapping[str, Any]], _Value]) -> _Value:
    """What `read` makes of the JSON object in an answer.

    Raises:
        SgrtError: the server refused.
        BackendError: the answer is not what `read` expects.
    """
    if response.status_code != httpx.codes.OK:
        raise error_of(response.status_code, response.content, response.headers)
    return event_value(response.content, read)


def event_value(text: str | bytes, read: Callable[[Mapping[str, Any]], _Value]) -> _Value:
    """What `read` makes of a JSON object.

    Raises:
        SgrtError: it is the event that a stream ends with when the call fails.
        BackendError: it is not what `read` expects.
    """
    try:
        value: object = json.loads(text)
        if not isinstance(value, dict):
            raise TypeError("a JSON object was expected")
        refusal = value.get("error")
        if refusal is None:
            return read(value)
    except SgrtError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise BackendError(
            f"the server's answer cannot be read ({type(error).__name__}: {error}): {_shown(text)}"
        ) from error
    raise (
        _error_from(refusal, {})
        if isinstance(refusal, dict)
        else BackendError(f"the server says {_shown(text)}")
    )


def error_of(status: int, body: bytes, headers: Mapping[str, str]) -> SgrtError:
    """The exception for an answer that is not a success."""
    try:
        error: object = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        error = None
    if isinstance(error, dict):
        return _error_from(error, headers)
    return BackendError(f"the server answered {status}: {_shown(body)}")


def unreachable(url: str, error: httpx.HTTPError) -> BackendError:
    """The exception for a server that does not answer at all."""
    return BackendError(f"the server at {url} cannot be reached: {type(error).__name__} {error}")


def _error_from(error: Mapping[str, Any], headers: Mapping[str, str]) -> SgrtError:
    """The exception that the same fault raises in process."""
    message, code, param = str(error.get("message")), error.get("code"), str(error.get("param") or "")
    kind = error.get("type")
    if code == "context_length_exceeded":
        return ContextOverflow(message, param=param)
    if isinstance(code, str) and code in _CONSTRAINT_CODES:
        return ConstraintError(message, param=param)
    if code == "deadline_exceeded":
        return DeadlineExceeded(message)
    if code == "aborted":
        return Cancelled(message)
    if kind == "overloaded_error":
        return Overloaded(message, retry_after_s=_retry_after_s(headers))
    if kind == "invalid_request_error":
        return InvalidRequest(message, param=param)
    return BackendError(message)


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """When to come back: `retry-after-ms` is exact, `retry-after` is in whole seconds (or a date, which is not read)."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit_s
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    return _RETRY_AFTER_S


def _shown(text: str | bytes) -> str:
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return raw[:_SHOWN_BYTES].decode("utf-8", "replace")
