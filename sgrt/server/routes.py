"""Every route of the server: method, path, handler, the model of its body, whether it streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pydantic import BaseModel

from sgrt.server import basics, native, responses
from sgrt.server.chat import chat_completions
from sgrt.server.completions import completions
from sgrt.server.endpoint import Incoming
from sgrt.server.openapi import Operation
from sgrt.server.replies import Reply
from sgrt.server.service import Service
from sgrt.server.wire.chat import ChatRequest
from sgrt.server.wire.completions import CompletionRequest
from sgrt.server.wire.native import (
    DecodeRequest,
    EncodeRequest,
    GenerateRequest,
    RenderRequest,
    ScoreRequest,
)
from sgrt.server.wire.responses import ResponsesRequest

ServiceHandler = Callable[[Service, Incoming], Awaitable[Reply]]


class ServiceRoute(NamedTuple):
    """One route. `may_degrade`: while the server is crowded a smaller model may answer, where one was given."""

    method: str
    path: str
    handler: ServiceHandler
    request: type[BaseModel] | None = None
    streams: bool = False
    may_degrade: bool = False

    @property
    def operation(self) -> Operation:
        """The route as the OpenAPI document shows it."""
        summary = (self.handler.__doc__ or "").strip().split("\n")[0]
        return Operation(self.method, self.path, summary, self.request, self.streams)


ROUTES = (
    ServiceRoute(
        "POST", "/v1/chat/completions", chat_completions, ChatRequest, streams=True, may_degrade=True
    ),
    ServiceRoute("POST", "/v1/completions", completions, CompletionRequest, streams=True, may_degrade=True),
    ServiceRoute(
        "POST", "/v1/responses", responses.create_response, ResponsesRequest, streams=True, may_degrade=True
    ),
    ServiceRoute("GET", "/v1/responses/{response_id}", responses.read_response),
    ServiceRoute("DELETE", "/v1/responses/{response_id}", responses.delete_response),
    ServiceRoute("POST", "/v1/responses/{response_id}/cancel", responses.cancel_response),
    ServiceRoute("GET", "/v1/models", basics.models),
    ServiceRoute("GET", "/v1/models/{name:path}", basics.model),
    ServiceRoute("GET", "/health", basics.health),
    ServiceRoute("GET", "/v1/health", basics.health),
    ServiceRoute("GET", "/ready", basics.ready),
    ServiceRoute("GET", "/metrics", basics.metrics),
    ServiceRoute("POST", "/tokenize", basics.tokenize, basics.TokenizeRequest),
    ServiceRoute("POST", "/v1/tokenize", basics.tokenize, basics.TokenizeRequest),
    ServiceRoute("POST", "/detokenize", basics.detokenize, basics.DetokenizeRequest),
    ServiceRoute("POST", "/v1/detokenize", basics.detokenize, basics.DetokenizeRequest),
    ServiceRoute("POST", "/generate", native.generate, GenerateRequest, streams=True),
    ServiceRoute("POST", "/score", native.score, ScoreRequest),
    ServiceRoute("GET", "/describe", native.describe),
    ServiceRoute("GET", "/vocabulary", native.vocabulary),
    ServiceRoute("POST", "/encode", native.encode, EncodeRequest),
    ServiceRoute("POST", "/decode", native.decode, DecodeRequest),
    ServiceRoute("POST", "/render", native.render, RenderRequest),
    ServiceRoute("POST", "/abort_request", basics.abort, basics.AbortRequest),
    ServiceRoute("POST", "/flush_cache", basics.flush_cache),
    ServiceRoute("GET", "/server_info", basics.server_info),
)
