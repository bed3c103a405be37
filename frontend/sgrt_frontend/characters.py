"""Texts of a program are Unicode: half of a character, which a str may hold, is refused where it is written."""

from __future__ import annotations

from sgrt_frontend.errors import InvalidRequest

_SHOWN = 20


def require_characters(text: str, param: str) -> None:
    """Refuse text that UTF-8 cannot write.

    Raises:
        InvalidRequest: it has a lone surrogate; the message shows what stands around it.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - _SHOWN) : error.start + _SHOWN]
        raise InvalidRequest(
            f"{param}: {around!r} has half of a character ({text[error.start]!r} at {error.start}), which no text can "
            "hold; decode bytes with errors='replace' before they come here",
            param=param,
        ) from None
