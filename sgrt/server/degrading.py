"""Answering from a smaller model while the server is crowded, where it was told to."""

from __future__ import annotations

import functools
from dataclasses import replace

from sgrt.server.endpoint import Handler, Incoming
from sgrt.server.replies import Reply
from sgrt.server.routes import ServiceHandler
from sgrt.server.service import Service

SHORTENED = "x-sgrt-shortened"
DEGRADED = "x-sgrt-degraded"


def handler_of(handler: ServiceHandler, service: Service, smaller: Service | None) -> Handler:
    """`handler` on `service`; while that is crowded, on `smaller` if there is one. The answer says so."""
    on_service: Handler = functools.partial(handler, service)
    on_smaller: Handler | None = functools.partial(handler, smaller) if smaller else None

    async def choose(incoming: Incoming) -> Reply:
        if smaller is None or on_smaller is None or not service.is_crowded:
            reply = await on_service(incoming)
            if SHORTENED in reply.headers:
                service.metrics.degraded.add(policy="shorten")
            return reply
        reply = await on_smaller(incoming)
        service.metrics.degraded.add(policy="smaller")
        return replace(reply, headers={**reply.headers, DEGRADED: smaller.model_names[0]})

    return choose
