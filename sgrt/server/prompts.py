"""From the messages of a chat to prompt tokens, under the model's own template.

A template that knows tools gets them as they came. For every other the tools are described in the system
message and past calls are written out, in the format that the server reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from sgrt.server.config import Limits
from sgrt.server.errors import bad_request
from sgrt.server.json_body import JsonValue
from sgrt.server.sessions import Turn
from sgrt.server.tool_setup import ToolMode, ToolSetup, template_tools
from sgrt.server.wire.chat import ChatMessage, ChatRequest
from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Message, Role
from sgrt_grammars.tools.format import Format
from sgrt_grammars.tools.tool import Call
from sgrt_grammars.tools.writing import described_tools, written_calls

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
_TEXT_PARTS = ("text", "input_text", "output_text")
# What a request may tell a template; the rest of its variables are the server's own.
_TEMPLATE_VARIABLES = frozenset(
    {"enable_thinking", "thinking", "thinking_mode", "reasoning_effort", "date_string"}
)


@runtime_checkable
class RendersTools(Protocol):
    """A backend whose template takes tools and variables."""

    def template_text(self) -> str:
        """The template's source."""
        ...

    def render_chat(
        self,
        messages: Sequence[Mapping[str, JsonValue]],
        *,
        open_assistant: bool,
        tools: Sequence[Mapping[str, JsonValue]],
        variables: Mapping[str, JsonValue],
    ) -> tuple[int, ...]:
        """Prompt tokens; user text never becomes a special token."""
        ...


def template_of(backend: Backend) -> str:
    """The source of a backend's template, empty where it shows none."""
    return backend.template_text() if isinstance(backend, RendersTools) else ""


class Renderer:
    """Renders the chats of one server."""

    def __init__(self, backend: Backend, form: Format | None) -> None:
        self._backend = backend
        self._form = form

    async def render(self, request: ChatRequest, setup: ToolSetup, limits: Limits) -> tuple[int, ...]:
        """Prompt tokens. With `continue_final_message` the last turn stays open and is continued.

        Raises:
            InvalidRequest: the model has no template or refuses these messages.
            ApiError: too many messages, parts that are not text, or a contradiction in what is asked.
        """
        if len(request.messages) > limits.messages:
            raise bad_request(f"messages: at most {limits.messages} are taken", param="messages")
        variables = self._variables(request)
        messages = list(request.messages)
        opens = request.add_generation_prompt is not False
        if not request.continue_final_message:
            return await self._turns(messages, request, setup, opens, variables)
        if request.add_generation_prompt:
            raise bad_request(
                "add_generation_prompt and continue_final_message exclude each other",
                param="continue_final_message",
            )
        last = messages.pop()
        if last.role != "assistant":
            raise bad_request(
                "continue_final_message needs a last message of the assistant", param="continue_final_message"
            )
        opened = await self._turns(messages, request, setup, True, variables)
        begun = plain_text(last, index=len(messages))
        return opened + await asyncio.to_thread(self._backend.encode, begun)

    def _variables(self, request: ChatRequest) -> dict[str, JsonValue]:
        wanted = request.chat_template_kwargs or {}
        for name, value in wanted.items():
            if name not in _TEMPLATE_VARIABLES or not isinstance(value, str | bool | int | float):
                raise bad_request(
                    f"chat_template_kwargs takes {', '.join(sorted(_TEMPLATE_VARIABLES))} with plain values",
                    param=f"chat_template_kwargs.{name[:40]}",
                )
            if not isinstance(self._backend, RendersTools):
                raise bad_request(
                    "the template of this backend takes no variables", param="chat_template_kwargs"
                )
        variables: dict[str, JsonValue] = {
            name: value for name, value in wanted.items() if isinstance(value, str | bool | int | float)
        }
        if request.reasoning_effort is not None:
            variables.setdefault("reasoning_effort", request.reasoning_effort)
        return variables

    async def _turns(
        self,
        messages: list[ChatMessage],
        request: ChatRequest,
        setup: ToolSetup,
        opens: bool,
        variables: dict[str, JsonValue],
    ) -> tuple[int, ...]:
        # Beside the event loop: a template takes milliseconds, in which nobody else would be answered.
        tools = template_tools(request) if setup.mode is not ToolMode.NONE else []
        return await asyncio.to_thread(self._tokens, messages, setup, tools, opens, variables)

    def plain_turns(self, turns: Sequence[Turn], opens: bool) -> tuple[int, ...]:
        """The tokens of turns that are (role, text)."""
        messages = [ChatMessage.model_validate({"role": role, "content": text}) for role, text in turns]
        return self._tokens(messages, ToolSetup(mode=ToolMode.NONE), [], opens, {})

    def _tokens(
        self,
        messages: list[ChatMessage],
        setup: ToolSetup,
        tools: list[Mapping[str, JsonValue]],
        opens: bool,
        variables: dict[str, JsonValue],
    ) -> tuple[int, ...]:
        backend = self._backend
        has_calls = any(message.tool_calls or message.role in ("tool", "function") for message in messages)
        if isinstance(backend, RendersTools) and (
            not (tools or has_calls) or "tools" in backend.template_text()
        ):
            turns = [_template_message(message, index) for index, message in enumerate(messages)]
            return backend.render_chat(turns, open_assistant=opens, tools=tools, variables=variables)
        return backend.render(self._written_out(messages, setup), open_assistant=opens)

    def _written_out(self, messages: list[ChatMessage], setup: ToolSetup) -> list[Message]:
        """The chat as plain messages, tools and calls in words."""
        result = [self._plain_message(message, index) for index, message in enumerate(messages)]
        if setup.mode is ToolMode.NONE or self._form is None:
            return result
        text = described_tools(self._form, setup.tools)
        if result and result[0].role is Role.SYSTEM:
            result[0] = Message(role=Role.SYSTEM, content=f"{result[0].content}\n\n{text}")
        else:
            result.insert(0, Message(role=Role.SYSTEM, content=text))
        return result

    def _plain_message(self, message: ChatMessage, index: int) -> Message:
        text = plain_text(message, index=index)
        role = _ROLES[message.role]
        if role is Role.TOOL and self._form is not None:
            return Message(role=Role.USER, content=f"<tool_response>\n{text}\n</tool_response>")
        if message.tool_calls and self._form is not None:
            calls = [
                Call(name=call.function.name, arguments=_arguments_text(call.function.arguments))
                for call in message.tool_calls
            ]
            written = written_calls(self._form, calls)
            text = f"{text}\n{written}" if text else written
        return Message(role=role, content=text)


def plain_text(message: ChatMessage, *, index: int) -> str:
    """The text of a message.

    Raises:
        ApiError: it has parts that are not text, or no content, which an assistant's message alone may lack.
    """
    if message.content is None:
        if message.role != "assistant":
            raise bad_request(
                f"a message of role {message.role!r} needs content", param=f"messages[{index}].content"
            )
        return message.refusal or ""
    if isinstance(message.content, str):
        return message.content
    texts: list[str] = []
    for position, part in enumerate(message.content):
        text = part.text if part.type in _TEXT_PARTS else None
        if part.type == "refusal":
            text = part.refusal
        if text is None:
            raise bad_request(
                f"this model takes text only; a part of type {part.type[:40]!r} cannot be read",
                param=f"messages[{index}].content[{position}]",
                code="unsupported_content",
            )
        texts.append(text)
    return "".join(texts)


def num_characters(messages: Sequence[ChatMessage]) -> int:
    """How long the texts of messages are together."""
    total = 0
    for message in messages:
        if isinstance(message.content, str):
            total += len(message.content)
        else:
            total += sum(len(part.text or "") for part in message.content or ())
    return total


def _template_message(message: ChatMessage, index: int) -> dict[str, JsonValue]:
    """A message as templates expect it: arguments of calls are objects."""
    result: dict[str, JsonValue] = {
        "role": _ROLES[message.role].value,
        "content": plain_text(message, index=index),
    }
    if message.tool_calls:
        result["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.function.name,
                    "arguments": json.loads(_arguments_text(call.function.arguments)),
                },
            }
            for call in message.tool_calls
        ]
    for name, value in (("tool_call_id", message.tool_call_id), ("name", message.name)):
        if value is not None:
            result[name] = value
    reasoning = message.reasoning or message.reasoning_content
    if reasoning:
        result["reasoning_content"] = reasoning
    return result


def _arguments_text(arguments: str | Mapping[str, object] | None) -> str:
    """Arguments of a past call as the JSON text of an object.

    Raises:
        ApiError: they are no JSON object.
    """
    if arguments is None or arguments == "":
        return "{}"
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise bad_request("the arguments of a tool call must be a JSON object", param="messages")
    return json.dumps(value, ensure_ascii=False)


def plain_turns_of(request: ChatRequest) -> tuple[Turn, ...] | None:
    """The messages as (role, text); None where one is more than that (calls, results, names)."""
    turns: list[Turn] = []
    for index, message in enumerate(request.messages):
        if message.tool_calls or message.tool_call_id or message.name:
            return None
        turns.append((message.role, plain_text(message, index=index)))
    return tuple(turns)
