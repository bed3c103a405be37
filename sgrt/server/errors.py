"""Errors as clients see them: an HTTP status and `{"error": {message, type, param, code}}`.

Every library was measured to lose the message of any other shape, so this is the only one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import ValidationError

from sgrt.errors import (
    BackendError,
    ConstraintError,
    ContextOverflow,
    DeadlineExceeded,
    InvalidRequest,
    Overloaded,
    SgrtError,
)
from sgrt_grammars.errors import (
    BudgetTooSmall,
    CompileLimitExceeded,
    GrammarError,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)

_MESSAGE_CHARS = 800
_SHOWN_ERRORS = 5


class ApiError(Exception):
    """A refusal with its HTTP status; `param` is the dotted path of the field at fault."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message if len(message) <= _MESSAGE_CHARS else message[:_MESSAGE_CHARS] + "..."
        self.kind = kind
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    @property
    def body(self) -> dict[str, object]:
        """The JSON body."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}

    @property
    def headers(self) -> Mapping[str, str]:
        """Response headers: when to come back, for errors that pass."""
        if self.status == 401:
            return {"www-authenticate": "Bearer"}
        if self.retry_after_s is None:
            return {}
        return {
            "retry-after": str(math.ceil(self.retry_after_s)),
            "retry-after-ms": str(math.ceil(self.retry_after_s * 1000)),
        }


def bad_request(message: str, *, param: str | None = None, code: str | None = None) -> ApiError:
    """A 400 with the field at fault."""
    return ApiError(400, message, param=param, code=code)


def from_validation(error: ValidationError) -> ApiError:
    """A 400 for a body that does not fit its model: the first few faults, each cut short."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{_dotted(fault['loc'])}: {fault['msg'][:200]}" for fault in faults[:_SHOWN_ERRORS]]
    return bad_request("; ".join(lines), param=_dotted(faults[0]["loc"]) or None)


def from_exception(error: Exception, *, constraint_param: str | None = None) -> ApiError:
    """The refusal that tells a client about `error`. What is nobody's known failure becomes a plain 500.

    `constraint_param` is the request field that the call's constraint came from.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ValidationError):
        return from_validation(error)
    if isinstance(error, ConstraintError | GrammarError):
        return _from_constraint(error, constraint_param)
    if isinstance(error, ContextOverflow):
        return bad_request(str(error), param=error.param or "messages", code="context_length_exceeded")
    if isinstance(error, InvalidRequest):
        return bad_request(str(error), param=error.param or None)
    return _from_failure(error)


def _from_failure(error: Exception) -> ApiError:
    if isinstance(error, Overloaded):
        return ApiError(
            503, str(error), kind="overloaded_error", code="overloaded", retry_after_s=error.retry_after_s
        )
    if isinstance(error, DeadlineExceeded):
        return ApiError(
            429,
            str(error) or "the deadline of the request passed",
            kind="timeout_error",
            code="deadline_exceeded",
            retry_after_s=1.0,
        )
    if isinstance(error, BackendError | SgrtError):
        return ApiError(500, str(error), kind="server_error", code="backend_error")
    return ApiError(500, "internal error", kind="server_error", code="internal_error")


def _from_constraint(error: ConstraintError | GrammarError, param: str | None) -> ApiError:
    cause = error.__cause__ if isinstance(error.__cause__, GrammarError) else error
    own_param = error.param if isinstance(error, ConstraintError) else ""
    code = "invalid_constraint"
    for kind, name in _CONSTRAINT_CODES.items():
        if isinstance(cause, kind):
            code = name
    if code == "budget_too_small":
        param = "max_tokens"
    return bad_request(str(error), param=param or own_param or None, code=code)


_CONSTRAINT_CODES: dict[type[GrammarError], str] = {
    UnsupportedConstraint: "unsupported_schema",
    UnsatisfiableConstraint: "unsatisfiable_constraint",
    BudgetTooSmall: "budget_too_small",
    CompileLimitExceeded: "constraint_too_complex",
}


def _dotted(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        # pydantic names the arm of a union it tried; clients know nothing of our arms.
        if isinstance(part, str) and (part[:1].isupper() or "[" in part or part in _UNION_ARMS):
            continue
        path += f"[{part}]" if isinstance(part, int) else (f".{part}" if path else part)
    return path


_UNION_ARMS = frozenset({"str", "int", "float", "bool", "list", "dict", "none"})
