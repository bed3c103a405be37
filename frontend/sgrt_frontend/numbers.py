"""Numbers that programs pass: True is none of them, and nan is no time."""

from __future__ import annotations

from numbers import Integral, Real

from sgrt_frontend.errors import InvalidRequest


def is_number(value: object, kind: type = Real) -> bool:
    """Whether a value is a number of a kind; Python takes True for 1, which nobody means."""
    return isinstance(value, kind) and not isinstance(value, bool)


def require_count(value: object, param: str) -> None:
    """Refuse what is not a whole number of at least 1. Raises `InvalidRequest`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InvalidRequest(f"{param}: must be a whole number of at least 1, not {value!r}", param=param)


def require_seconds(value: object, param: str) -> None:
    """Refuse what is not a number of seconds above 0. Raises `InvalidRequest`."""
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) > 0:
        raise InvalidRequest(f"{param}: must be a number of seconds above 0, not {value!r}", param=param)
