"""The body of /v1/chat/completions."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sgrt.server.wire.base import JsonObject, Refused, Wire
from sgrt.server.wire.fields import SamplingFields


class FunctionCall(Wire):
    """A call an assistant made earlier: `arguments` is JSON text."""

    name: str
    arguments: str | JsonObject | None = None


class ToolCall(Wire):
    """A tool call in the history."""

    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionCall


class ContentPart(Wire):
    """A part of a message; only text is taken."""

    type: str
    text: str | None = None
    refusal: str | None = None


class ChatMessage(Wire):
    """One turn."""

    refused: ClassVar[Refused] = {
        "prefix": (None, False),
        "partial": (None, False),
        "function_call": (None,),
        "audio": (None,),
    }
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Annotated[list[ContentPart], Field(fail_fast=True)] | None = None
    name: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(fail_fast=True)] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class FunctionTool(Wire):
    """What a tool is called and takes; `parameters` is a JSON Schema."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.\-]+$")]
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class Tool(Wire):
    """A tool the model may call."""

    type: Literal["function"]
    function: FunctionTool


class NamedFunction(Wire):
    """The function a `tool_choice` names."""

    name: str


class NamedToolChoice(Wire):
    """`tool_choice` that demands one function."""

    type: Literal["function"]
    function: NamedFunction


class ChatRequest(SamplingFields):
    """A chat completion request."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)]
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0)] = None
    tools: Annotated[list[Tool], Field(min_length=1, fail_fast=True)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: JsonObject | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
