"""Models, health, metrics, tokens: the small routes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sgrt.server.endpoint import Incoming
from sgrt.server.errors import ApiError, bad_request
from sgrt.server.prompts import num_characters
from sgrt.server.registry import CONTENT_TYPE
from sgrt.server.replies import Reply, TextReply, json_reply
from sgrt.server.sampling import check_token_ids
from sgrt.server.service import HasHealth, HasPrefixCache, HasSettings, Service
from sgrt.server.tool_setup import ToolMode, ToolSetup
from sgrt.server.validation import ignored_header, parse
from sgrt.server.wire.base import TokenIds, Wire
from sgrt.server.wire.chat import ChatMessage, ChatRequest


class TokenizeRequest(Wire):
    """Text or a chat to turn into tokens. A text is read as /v1/completions reads its prompt."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    return_token_strs: bool | None = None
    special: bool | None = None


class DetokenizeRequest(Wire):
    """Tokens to turn into text."""

    model: str | None = None
    tokens: TokenIds


class AbortRequest(Wire):
    """The request to end."""

    request_id: Annotated[str, Field(min_length=1, max_length=256)]


async def models(service: Service, incoming: Incoming) -> Reply:
    """The list of models."""
    return json_reply(
        {"object": "list", "data": [_model_card(service, name) for name in service.model_names]}
    )


async def model(service: Service, incoming: Incoming) -> Reply:
    """One model; 404 when it is not served here."""
    return json_reply(_model_card(service, service.check_model(incoming.path_params["name"])))


async def health(service: Service, incoming: Incoming) -> Reply:
    """Whether the process and its backend are alive."""
    if isinstance(service.backend, HasHealth) and not service.backend.is_healthy():
        raise ApiError(503, "the engine has stopped", kind="server_error", code="engine_dead")
    return json_reply({"status": "ok"})


async def ready(service: Service, incoming: Incoming) -> Reply:
    """Whether new work is taken."""
    if service.admission.is_draining:
        raise ApiError(503, "the server is shutting down", kind="overloaded_error", code="shutting_down")
    return await health(service, incoming)


async def metrics(service: Service, incoming: Incoming) -> Reply:
    """All metrics in Prometheus' text format."""
    return TextReply(body=service.metrics.expose().encode(), content_type=CONTENT_TYPE)


async def server_info(service: Service, incoming: Incoming) -> Reply:
    """What runs here and how it is set up; keys are not among it."""
    config, description = service.config, service.description
    limits = {name: getattr(config.limits, name) for name in config.limits.__slots__}
    return json_reply(
        {
            "model": description.model,
            "served_as": list(service.model_names),
            "context_tokens": description.context_tokens,
            "vocabulary_tokens": description.vocabulary_tokens,
            "has_chat_template": description.has_chat_template,
            "tool_format": service.tool_format_name,
            "engine": dict(service.backend.settings()) if isinstance(service.backend, HasSettings) else {},
            "limits": limits,
            "inflight_requests": service.admission.num_requests,
            "inflight_sequences": service.admission.num_sequences,
            "is_draining": service.admission.is_draining,
        }
    )


async def flush_cache(service: Service, incoming: Incoming) -> Reply:
    """Empty the prefix cache of what nobody uses."""
    if not isinstance(service.backend, HasPrefixCache):
        raise ApiError(501, "this backend has no prefix cache to flush", code="unsupported")
    return json_reply({"flushed_tokens": await service.backend.flush_cache()})


async def abort(service: Service, incoming: Incoming) -> Reply:
    """End a request by its exact id, as its answer or stream names it."""
    request = parse(AbortRequest, incoming.body)
    if not service.abort(request.request_id, owner=incoming.caller.salt):
        raise ApiError(404, "there is no running request with this id", param="request_id")
    return json_reply({"aborted": request.request_id})


async def tokenize(service: Service, incoming: Incoming) -> Reply:
    """Token ids of a text or of a rendered chat."""
    request = parse(TokenizeRequest, incoming.body)
    headers = ignored_header(request)
    service.check_model(request.model)
    if (request.prompt is None) == (request.messages is None):
        raise bad_request("send either prompt or messages", param="prompt")
    if request.prompt is not None:
        token_ids = await service.encode_prompt(
            request.prompt,
            special=request.special is not False,
            begins=request.add_special_tokens is not False,
        )
    else:
        token_ids = await _render(service, request)
    body: dict[str, object] = {
        "tokens": list(token_ids),
        "count": len(token_ids),
        "max_model_len": service.description.context_tokens,
    }
    if request.return_token_strs:
        body["token_strs"] = await asyncio.to_thread(_strings, service, token_ids)
    return json_reply(body, headers=headers)


async def detokenize(service: Service, incoming: Incoming) -> Reply:
    """The text of tokens."""
    request = parse(DetokenizeRequest, incoming.body)
    headers = ignored_header(request)
    service.check_model(request.model)
    token_ids = check_token_ids(
        request.tokens, vocabulary_tokens=service.description.vocabulary_tokens, param="tokens"
    )
    text = await service.decode(token_ids)
    return json_reply({"prompt": text, "text": text}, headers=headers)


def _strings(service: Service, token_ids: Sequence[int]) -> list[str]:
    return [service.backend.decode((token_id,)) for token_id in token_ids]


async def _render(service: Service, request: TokenizeRequest) -> tuple[int, ...]:
    service.check_size(num_characters(request.messages or ()), param="messages")
    chat = ChatRequest.model_construct(
        messages=request.messages or [], add_generation_prompt=request.add_generation_prompt
    )
    return await service.renderer.render(chat, ToolSetup(mode=ToolMode.NONE), service.config.limits)


def _model_card(service: Service, name: str) -> dict[str, object]:
    return {
        "id": name,
        "object": "model",
        "created": service.started_at,
        "owned_by": "sgrt",
        "root": service.description.model,
        "max_model_len": service.description.context_tokens,
    }
