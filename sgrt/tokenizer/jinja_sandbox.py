"""The sandbox in which a model's chat template runs. A model file is foreign input: its template may be hostile.

Jinja's immutable sandbox keeps templates away from the interpreter; here they are kept from filling the memory too.
The settings, filters and functions are those that templates are written for (those of `transformers`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NoReturn

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

_LARGEST_REPEAT = 100_000  # items or characters that `x * n` may make
_LARGEST_EXPONENT = 64


class TemplateRefusal(TemplateError):
    """The template itself says that it does not take these messages."""


class Sandbox(ImmutableSandboxedEnvironment):
    """A Jinja environment for chat templates."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, now: Callable[[], datetime]) -> None:
        """`now` is what a template gets when it asks for the time."""
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlocks, "jinja2.ext.loopcontrols"]
        )
        self.filters["tojson"] = _to_json
        del self.filters["center"], self.globals["lipsum"]  # make text of any length
        self.globals["raise_exception"] = _refuse
        self.globals["strftime_now"] = lambda format_: now().strftime(format_)

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Multiply or raise to a power, within bounds."""
        if operator == "**" and not (isinstance(right, int) and right <= _LARGEST_EXPONENT):
            raise SecurityError(f"a chat template may raise to powers up to {_LARGEST_EXPONENT} only")
        for sequence, count in ((left, right), (right, left)):
            if not (isinstance(sequence, Sequence) and isinstance(count, int)):
                continue
            if len(sequence) * count > _LARGEST_REPEAT:
                raise SecurityError(
                    f"a chat template may repeat up to {_LARGEST_REPEAT} items or characters only"
                )
        result: object = super().call_binop(context, operator, left, right)
        return result


class _GenerationBlocks(Extension):
    """`{% generation %}`, which marks what training learns: here its body is rendered as it is."""

    tags: set[str] = {"generation"}  # noqa: RUF012  # declared so by the base class

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Take the body out of its block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: str) -> NoReturn:
    raise TemplateRefusal(message)
