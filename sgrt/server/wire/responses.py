"""The body of /v1/responses."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sgrt.server.wire.base import JsonObject, Refused, Texts, Wire
from sgrt.server.wire.fields import DrawingFields


class ResponsesTool(Wire):
    """A function tool; its fields lie flat here."""

    type: Literal["function"]
    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.\-]+$")]
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class NamedFunctionChoice(Wire):
    """`tool_choice` that demands one function."""

    type: Literal["function"]
    name: str


class TextFormat(Wire):
    """The shape of the answer; a JSON Schema lies flat here."""

    refused: ClassVar[Refused] = {"json_schema": (None,)}
    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: Annotated[JsonObject | bool | None, Field(alias="schema")] = None
    strict: bool | None = None


class TextOptions(Wire):
    """How the answer is written."""

    format: TextFormat | None = None
    verbosity: str | None = None


class ReasoningOptions(Wire):
    """How much the model thinks; passed to the template."""

    refused: ClassVar[Refused] = {"max_tokens": (None,), "exclude": (None, False), "enabled": (None, True)}
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class InputPart(Wire):
    """A part of an input message or of a tool's output."""

    type: str
    text: str | None = None
    refusal: str | None = None


InputParts = Annotated[list[InputPart], Field(fail_fast=True)]


class InputItem(Wire):
    """Something that was said, called or returned. Which fields count depends on `type`."""

    type: str | None = None
    id: str | None = None
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | InputParts | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | InputParts | None = None
    status: str | None = None
    summary: InputParts | None = None


class ResponsesRequest(DrawingFields):
    """A request for a response."""

    input: str | Annotated[list[InputItem], Field(fail_fast=True)]
    instructions: str | None = None
    max_output_tokens: Annotated[int | None, Field(ge=1)] = None
    top_logprobs: Annotated[int | None, Field(ge=0)] = None
    include: Texts | None = None
    tools: list[ResponsesTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFunctionChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    chat_template_kwargs: JsonObject | None = None
    stream_options: JsonObject | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    truncation: Literal["auto", "disabled"] | None = None
    background: bool | None = None
