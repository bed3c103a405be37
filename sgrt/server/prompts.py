"""From the messages of a chat to prompt tokens, under the model's own template."""

from __future__ import annotations

import asyncio

from sgrt.server.config import Limits
from sgrt.server.errors import bad_request
from sgrt.server.wire.chat import ChatMessage, ChatRequest
from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Message, Role

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
_INLINE_CHARS = 8192


def plain_text(message: ChatMessage, *, index: int) -> str:
    """The text of a message.

    Raises:
        ApiError: it has parts that are not text.
    """
    if message.content is None:
        return message.refusal or ""
    if isinstance(message.content, str):
        return message.content
    texts: list[str] = []
    for position, part in enumerate(message.content):
        text = part.text if part.type in ("text", "input_text", "output_text") else None
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


def role_of(message: ChatMessage) -> Role:
    """The role of a message; a developer speaks as the system."""
    return _ROLES[message.role]


def check_count(request: ChatRequest, limits: Limits) -> None:
    """Refuse more messages than a chat may have."""
    if len(request.messages) > limits.messages:
        raise bad_request(f"messages: at most {limits.messages} are taken", param="messages")


async def render(backend: Backend, messages: list[Message], request: ChatRequest) -> tuple[int, ...]:
    """Prompt tokens. With `continue_final_message` the last turn stays open and is continued.

    Raises:
        InvalidRequest: the model has no template or refuses these messages.
        ApiError: the request asks for both a new turn and the continuation of the last one.
    """
    if not request.continue_final_message:
        return await _render(backend, messages, open_assistant=request.add_generation_prompt is not False)
    if request.add_generation_prompt:
        raise bad_request(
            "add_generation_prompt and continue_final_message exclude each other",
            param="continue_final_message",
        )
    last = messages[-1]
    if last.role is not Role.ASSISTANT:
        raise bad_request(
            "continue_final_message needs a last message of the assistant", param="continue_final_message"
        )
    opened = await _render(backend, messages[:-1], open_assistant=True)
    return opened + backend.encode(last.content)


async def _render(backend: Backend, messages: list[Message], *, open_assistant: bool) -> tuple[int, ...]:
    if sum(len(message.content) for message in messages) <= _INLINE_CHARS:
        return backend.render(messages, open_assistant=open_assistant)
    return await asyncio.to_thread(backend.render, messages, open_assistant=open_assistant)
