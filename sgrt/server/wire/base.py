"""What all request bodies and their parts have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from sgrt.server.json_body import JsonValue

JsonObject = dict[str, object]
# One fault is enough: as many errors as a body has values would take a second to build.
Texts = Annotated[list[str], Field(fail_fast=True)]
TokenIds = Annotated[list[int], Field(fail_fast=True)]
# Names of fields, each with the values of it that change nothing.
Refused = Mapping[str, tuple[JsonValue, ...]]


class Wire(BaseModel):
    """A request body or a part of one: strict types, unknown fields kept so that they can be judged."""

    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=())

    # Fields that this part does not have, and that would change what comes back.
    refused: ClassVar[Refused] = {}
