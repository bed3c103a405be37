"""A server around a whole engine whose model is a script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scripted_engine import scripted_engine
from server_client import Client

from sgrt.config import EngineSettings
from sgrt.engine.engine import Engine
from sgrt.engine.scripted import Script
from sgrt.server.app import create_app
from sgrt.server.config import ServerConfig


@contextmanager
def engine_serving(
    script: Script, *, num_pages: int = 256, settings: EngineSettings | None = None, **server: object
) -> Iterator[tuple[Client, Engine]]:
    """A client, and the engine behind it, which must have every page back at the end."""
    with scripted_engine(script, num_pages=num_pages, settings=settings) as engine:
        config = ServerConfig(model_names=("stub",), **server)  # type: ignore[arg-type]  # from test tables
        yield Client(create_app(engine, config)), engine
        engine.check_integrity()
        assert engine.stats()["num_requests_running"] == 0
