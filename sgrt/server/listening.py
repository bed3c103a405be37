"""The addresses that a server will listen on, taken before anything else is done."""

from __future__ import annotations

import socket

from sgrt.errors import InvalidRequest


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """A socket for every address of `host`. They are bound and do not listen yet: who connects is refused until then.

    Raises:
        InvalidRequest: there is no such address, or another program has the port.
    """
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            bound = socket.socket(family, kind, protocol)
            sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind(address)
    except OSError as error:
        for bound in sockets:
            bound.close()
        raise InvalidRequest(
            f"port: cannot listen on {host}:{port}: {error.strerror or error}; choose another --port (0 picks a free one) "
            "or --host",
            param="port",
        ) from error
    return sockets
