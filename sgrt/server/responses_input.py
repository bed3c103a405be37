"""From a Responses request to the chat it stands for."""

from __future__ import annotations

from typing import Literal

from sgrt.server.errors import bad_request
from sgrt.server.wire.chat import (
    ChatMessage,
    ChatRequest,
    ContentPart,
    FunctionCall,
    FunctionTool,
    NamedFunction,
    NamedToolChoice,
    Tool,
    ToolCall,
)
from sgrt.server.wire.fields import DrawingFields, JsonSchemaFormat, ResponseFormat
from sgrt.server.wire.responses import InputItem, InputPart, NamedFunctionChoice, ResponsesRequest, TextFormat

_REFUSED_ITEMS = (
    "input items of type {kind!r} are not supported; this server takes messages and function calls"
)


def conversation(request: ResponsesRequest, earlier: list[ChatMessage]) -> list[ChatMessage]:
    """The messages so far: what was stored, then what the request brings.

    Raises:
        ApiError: an item is of a kind that is not supported, or incomplete.
    """
    messages = list(earlier)
    if isinstance(request.input, str):
        messages.append(ChatMessage(role="user", content=request.input))
        return messages
    for index, item in enumerate(request.input):
        _add(messages, item, f"input[{index}]")
    return messages


def chat_request(request: ResponsesRequest, messages: list[ChatMessage]) -> ChatRequest:
    """The chat request of the same meaning.

    Raises:
        ApiError: something is asked for that no chat can give.
    """
    if request.background:
        raise bad_request("background responses are not supported", param="background")
    if not messages:
        raise bad_request("input: at least one item is needed", param="input")
    head = [ChatMessage(role="system", content=request.instructions)] if request.instructions else []
    choice = _choice(request) if request.tools else None
    # Clients send a format beside a demanded call. It is about texts, and there will be none: both are kept.
    wants_text = choice is None or choice in ("auto", "none")
    text_format = request.text.format if request.text and wants_text else None
    return ChatRequest(
        **{name: getattr(request, name) for name in DrawingFields.model_fields},
        messages=[*head, *messages],
        max_completion_tokens=request.max_output_tokens,
        logprobs=True if wants_logprobs(request) else None,
        top_logprobs=request.top_logprobs,
        tools=[_tool(tool) for tool in request.tools] if request.tools else None,
        tool_choice=choice,
        parallel_tool_calls=request.parallel_tool_calls,
        response_format=_format(text_format) if text_format else None,
        reasoning_effort=request.reasoning.effort if request.reasoning else None,
        chat_template_kwargs=request.chat_template_kwargs,
    )


def wants_logprobs(request: ResponsesRequest) -> bool:
    """Whether the answer's texts come with log-probabilities: that is asked for in two ways."""
    return bool(request.top_logprobs) or "message.output_text.logprobs" in (request.include or ())


def _add(messages: list[ChatMessage], item: InputItem, param: str) -> None:
    kind = item.type or "message"
    if kind == "message":
        if item.role is None:
            raise bad_request(f"{param}: a message needs a role", param=f"{param}.role")
        messages.append(ChatMessage(role=item.role, content=_content(item.content)))
    elif kind == "function_call":
        _add_call(messages, item, param)
    elif kind == "function_call_output":
        if item.call_id is None:
            raise bad_request(f"{param}: an output needs its call_id", param=f"{param}.call_id")
        messages.append(ChatMessage(role="tool", tool_call_id=item.call_id, content=_content(item.output)))
    elif kind != "reasoning":  # thoughts of earlier turns are not told again
        raise bad_request(_REFUSED_ITEMS.format(kind=kind[:40]), param=f"{param}.type")


def _add_call(messages: list[ChatMessage], item: InputItem, param: str) -> None:
    """A call belongs to the assistant's turn before it, or opens one."""
    if item.name is None or item.call_id is None:
        raise bad_request(f"{param}: a function call needs name and call_id", param=param)
    call = ToolCall(
        id=item.call_id,
        type="function",
        function=FunctionCall(name=item.name, arguments=item.arguments or "{}"),
    )
    if messages and messages[-1].role == "assistant":
        last = messages.pop()
        calls = [*(last.tool_calls or []), call]
        messages.append(ChatMessage(role="assistant", content=last.content, tool_calls=calls))
    else:
        messages.append(ChatMessage(role="assistant", content=None, tool_calls=[call]))


def _content(content: str | list[InputPart] | None) -> str | list[ContentPart] | None:
    if not isinstance(content, list):
        return content
    return [ContentPart(type=part.type, text=part.text, refusal=part.refusal) for part in content]


def _tool(tool: object) -> Tool:
    fields = {name: getattr(tool, name) for name in ("name", "description", "parameters", "strict")}
    return Tool(type="function", function=FunctionTool(**fields))


def _choice(request: ResponsesRequest) -> NamedToolChoice | Literal["none", "auto", "required"] | None:
    choice = request.tool_choice
    if isinstance(choice, NamedFunctionChoice):
        return NamedToolChoice(type="function", function=NamedFunction(name=choice.name))
    return choice


def _format(wanted: TextFormat) -> ResponseFormat:
    if wanted.type != "json_schema":
        return ResponseFormat(type=wanted.type)
    if wanted.schema_ is None:
        raise bad_request("text.format of type json_schema needs a schema", param="text.format.schema")
    schema = JsonSchemaFormat.model_validate({"name": wanted.name, "schema": wanted.schema_})
    return ResponseFormat(type="json_schema", json_schema=schema)
