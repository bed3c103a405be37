"""A chat template that can be run: from values to text, in this process or (`TemplateProcess`) in one of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Protocol

from jinja2 import Template
from jinja2.exceptions import TemplateError

from sgrt.tokenizer.disguise import Json
from sgrt.tokenizer.jinja_sandbox import Sandbox, TemplateRefusal

_LONGEST_OUTPUT = 1 << 25  # characters beyond any context: a template that runs away is stopped


class TemplateFailure(Exception):
    """A template that is malformed, or broke while it ran. The message says how, without naming values."""


class TemplateProgram(Protocol):
    """Runs one template. May be used from several threads."""

    def run(self, values: Mapping[str, Json]) -> str:
        """The template's text for these values.

        Raises:
            TemplateRefusal: the template itself says that it does not take them, or writes without end.
            TemplateFailure: it is malformed or broke.
        """
        ...


class LocalTemplate:
    """A template that runs in this process: nothing ends it but itself."""

    def __init__(self, source: str, now: Callable[[], datetime] = datetime.now) -> None:
        """`now` is what the template gets when it asks for the time."""
        self._source = source
        self._now = now

    def run(self, values: Mapping[str, Json]) -> str:
        """As `TemplateProgram.run`."""
        template = self._template
        try:
            return _joined(template.generate(values))
        except TemplateRefusal:
            raise
        except Exception as error:  # a template's expressions raise whatever Python raises
            raise TemplateFailure(f"failed on these messages: {type(error).__name__}: {error}") from error

    @cached_property
    def _template(self) -> Template:
        try:
            return Sandbox(self._now).from_string(self._source)
        except TemplateError as error:
            raise TemplateFailure(f"is malformed: {error}") from error


def _joined(pieces: Iterable[str]) -> str:
    """The output of a template, stopped when it grows beyond all bounds."""
    joined: list[str] = []
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > _LONGEST_OUTPUT:
            raise TemplateRefusal(f"it writes more than {_LONGEST_OUTPUT:,} characters")
        joined.append(piece)
    return "".join(joined)
