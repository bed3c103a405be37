"""A tool as formats see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function a model may call. `parameters` is its JSON Schema as JSON text."""

    name: str
    parameters: str = "{}"
    description: str = ""

    @property
    def schema(self) -> Mapping[str, object]:
        """The parsed schema; empty when it is no object."""
        value = json.loads(self.parameters)
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A finished call. `arguments` is the JSON text of an object."""

    name: str
    arguments: str
