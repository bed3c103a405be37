"""Errors a program's author meets.

SgrtError
├── InvalidRequest      the call itself is wrong: a parameter, a name, a type (`param` names it)
│   └── ContextOverflow prompt plus output do not fit the model's context
├── ConstraintError     the constraint is malformed, unsupported, unsatisfiable or over budget
├── BackendError        the backend failed or is unreachable
├── Overloaded          the backend refuses new work for now (`retry_after_s`)
├── DeadlineExceeded    the call's deadline passed
├── Cancelled           the call was cancelled
└── ProgramError        a call inside a program failed: variable, source position, cause
"""

from __future__ import annotations


class SgrtError(Exception):
    """Root of everything sgrt raises on purpose."""


class InvalidRequest(SgrtError, ValueError):
    """The call is wrong as written; `param` names the parameter at fault."""

    def __init__(self, message: str, *, param: str = "") -> None:
        super().__init__(message)
        self.param = param


class ContextOverflow(InvalidRequest):
    """The prompt (and what was asked to follow) is longer than the context."""


class ConstraintError(InvalidRequest):
    """The constraint cannot be enforced as asked; `pointer` says where."""

    def __init__(self, message: str, *, param: str = "", pointer: str = "") -> None:
        super().__init__(message, param=param)
        self.pointer = pointer


class BackendError(SgrtError):
    """The backend failed."""


class Overloaded(BackendError):
    """The backend refuses new work for now."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(SgrtError, TimeoutError):
    """The deadline of a call passed before it finished."""


class Cancelled(SgrtError):
    """The call was cancelled: by the program, or `by_backend`, which is closing and gave up what it had begun."""

    def __init__(self, message: str, *, by_backend: bool = False) -> None:
        super().__init__(message)
        self.by_backend = by_backend


class ProgramError(SgrtError):
    """A call inside a program failed. `__cause__` is the failure; the message has the source position."""

    def __init__(self, message: str, *, variable: str, source: str) -> None:
        super().__init__(f"{source}: {message}")
        self.variable = variable
        self.source = source
