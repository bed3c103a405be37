"""Fixtures of the server's tests."""

from __future__ import annotations

import pytest
from server_client import Client, PieceBackend

from sgrt.server.app import create_app
from sgrt.server.config import ServerConfig


@pytest.fixture
def backend() -> PieceBackend:
    """A backend that says "Hello world"."""
    return PieceBackend()


@pytest.fixture
def client(backend: PieceBackend) -> Client:
    """A client of a server with default settings."""
    return Client(create_app(backend, ServerConfig()))
