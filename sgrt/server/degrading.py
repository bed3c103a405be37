"""Answering from a smaller model while the server is crowded, where it was told to."""

from __future__ import annotations

import functools
from dataclasses import replace

from sgrt.server.endpoint import Handler, Incoming
from sgrt.server.replies import Reply
from sgrt.server.routes import ServiceHandler
from sgrt.server.service import Service


def handler_of(handler: ServiceHandler, service: Service, smaller: Service | None) -> Handler:
    """`handler` on `service`; while that is crowded, on `smaller` if there is one. The answer says so."""
    on_service: Handler = functools.partial(handler, service)
    if smaller is None:
        return on_service
    on_smaller: Handler = functools.partial(handler, smaller)

    async def choose(incoming: Incoming) -> Reply:
        if not service.is_crowded:
            return await on_service(incoming)
        reply = await on_smaller(incoming)
        return replace(reply, headers={**reply.headers, "x-sgrt-degraded": smaller.model_names[0]})

    return choose
