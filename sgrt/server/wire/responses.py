"""The body of /v1/responses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sgrt.server.wire.fields import JsonObject, StructuredOutputs, Texts, Wire


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


class ResponsesRequest(Wire):
    """A request for a response."""

    model: str | None = None
    input: str | Annotated[list[InputItem], Field(fail_fast=True)]
    instructions: str | None = None
    max_output_tokens: Annotated[int | None, Field(ge=1)] = None
    temperature: Annotated[float | None, Field(ge=0, le=100)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    top_k: Annotated[int | None, Field(ge=-1)] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    repetition_penalty: Annotated[float | None, Field(gt=0, le=100)] = None
    seed: Annotated[int | None, Field(ge=-(2**63), lt=2**63)] = None
    stop: str | Texts | None = None
    top_logprobs: Annotated[int | None, Field(ge=0)] = None
    tools: list[ResponsesTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFunctionChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    structured_outputs: StructuredOutputs | None = None
    reasoning: ReasoningOptions | None = None
    chat_template_kwargs: JsonObject | None = None
    stream: bool | None = None
    stream_options: JsonObject | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    truncation: Literal["auto", "disabled"] | None = None
    background: bool | None = None
    priority: Annotated[int | None, Field(ge=-(2**31), lt=2**31)] = None
    deadline_s: Annotated[float | None, Field(gt=0, le=86400)] = None
    cache_salt: Annotated[str | None, Field(min_length=1, max_length=128)] = None
