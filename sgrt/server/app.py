"""The ASGI application: routes, keys, counts, and errors in one shape on every path."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sgrt import __version__
from sgrt.errors import InvalidRequest
from sgrt.server.config import ServerConfig
from sgrt.server.degrading import handler_of
from sgrt.server.endpoint import Endpoint, EndpointLimits, Handler, Incoming
from sgrt.server.errors import ApiError
from sgrt.server.openapi import openapi_document
from sgrt.server.replies import Reply, error_reply, json_reply
from sgrt.server.routes import ROUTES
from sgrt.server.service import Service
from sgrt_frontend.backend import Backend


def create_app(
    backend: Backend,
    config: ServerConfig,
    *,
    clock: Callable[[], float] = time.monotonic,
    smaller: Backend | None = None,
) -> Starlette:
    """The server's application. `app.state.service` is its shared state.

    `smaller` answers while the server is crowded, where the config says `overload="smaller"`.

    Raises:
        InvalidRequest: only one of the two is given.
    """
    if (config.overload == "smaller") != (smaller is not None):
        raise InvalidRequest(
            'overload: "smaller" and a smaller model (--overload-model) go together', param="overload"
        )
    service = Service(backend, config, clock)
    app = Starlette(
        routes=_routes(service, _smaller_service(smaller, service)),
        middleware=[*_cors(config), Middleware(_Gate, service=service)],
        exception_handlers={HTTPException: _http_error},
    )
    app.state.service = service
    return app


def _routes(service: Service, beside: Service | None) -> list[Route]:
    config = service.config
    limits = EndpointLimits(
        body_bytes=config.limits.body_bytes,
        json_depth=config.limits.json_depth,
        keep_alive_s=config.keep_alive_s,
        body_timeout_s=config.body_timeout_s,
        stall_timeout_s=config.stall_timeout_s,
    )

    def endpoint(method: str, path: str, handler: Handler) -> Route:
        on_disconnect = service.metrics.disconnects.add
        application = Endpoint(handler, method=method, limits=limits, on_disconnect=on_disconnect)
        return Route(path, application, methods=[method])

    routes = [
        endpoint(
            route.method,
            route.path,
            handler_of(route.handler, service, beside if route.may_degrade else None),
        )
        for route in ROUTES
    ]
    return [*routes, endpoint("GET", "/openapi.json", _openapi)]


def _cors(config: ServerConfig) -> list[Middleware]:
    """Outermost, where origins are named: what is refused says so to a page as well."""
    if not config.allowed_origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(config.allowed_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
        )
    ]


def _smaller_service(smaller: Backend | None, service: Service) -> Service | None:
    if smaller is None:
        return None
    config = replace(service.config, model_names=(), tool_format="auto")  # those given are the main model's
    return Service(smaller, config, service.clock, stands_in_for=service)


async def _openapi(incoming: Incoming) -> Reply:
    return _document()


@cache
def _document() -> Reply:
    return json_reply(openapi_document([route.operation for route in ROUTES], version=__version__))


_HEADERS = 256
_HEADER_BYTES = 64 * 1024


class _Gate:
    """Checks the key against the raw path, gives the request an id and counts the answer."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._service.metrics.response(_route_label(path), message["status"])
            await send(message)

        try:
            _check_headers(scope["headers"])
            scope["sgrt.caller"] = self._service.gatekeeper.admit(path, dict(scope["headers"]))
        except ApiError as error:
            reply = error_reply(error)
            await Response(reply.body, reply.status, reply.headers, "application/json")(
                scope, receive, counted
            )
            return
        await self._app(scope, receive, counted)


def _check_headers(headers: Sequence[tuple[bytes, bytes]]) -> None:
    if len(headers) > _HEADERS or sum(len(name) + len(value) for name, value in headers) > _HEADER_BYTES:
        raise ApiError(
            431,
            f"at most {_HEADERS} headers with {_HEADER_BYTES} bytes together are taken",
            code="headers_too_large",
        )


_KNOWN_PATHS = frozenset(route.path for route in ROUTES)


def _route_label(path: str) -> str:
    """The route as a label: unknown paths share one, so that clients cannot grow the registry."""
    if path in _KNOWN_PATHS:
        return path
    for prefix, label in (
        ("/v1/models/", "/v1/models/{name}"),
        ("/v1/responses/", "/v1/responses/{response_id}"),
    ):
        if path.startswith(prefix):
            return label
    return "other"


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for HTTPException alone"
    refusal = ApiError(error.status_code, f"{request.method} {request.scope['path'][:200]}: {error.detail}")
    reply = error_reply(refusal)
    return Response(reply.body, reply.status, reply.headers, "application/json")
