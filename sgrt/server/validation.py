"""Checks that hold for every request body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from sgrt.server.errors import bad_request, from_validation
from sgrt.server.json_body import JsonValue
from sgrt.server.wire.base import Wire
from sgrt.server.wire.fields import SamplingFields
from sgrt.server.wire.unknown import judge_unknown_fields

_Request = TypeVar("_Request", bound=Wire)


def parse(model: type[_Request], body: Mapping[str, JsonValue]) -> _Request:
    """The body as a `model`.

    Raises:
        ApiError: status 400 with the dotted path of the first fault.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise from_validation(error) from None
    except RecursionError:
        raise bad_request("the body is nested too deeply") from None


def ignored_header(request: Wire) -> dict[str, str]:
    """A header that names the fields nobody here knows, so that nothing is ignored in silence.

    Raises:
        ApiError: an unknown field is one that must not be ignored.
    """
    names = judge_unknown_fields(request)
    if not names:
        return {}
    shown = [name for name in names if name.isascii() and name.isprintable()][:20]
    return {"x-sgrt-ignored-fields": ",".join(name[:40] for name in shown)}


def check_stream_options(request: SamplingFields) -> None:
    """Stream options make sense for streams alone."""
    if request.stream_options is not None and not request.stream:
        raise bad_request("stream_options needs stream: true", param="stream_options")
