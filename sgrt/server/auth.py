"""Who calls: keys compared in constant time, on the raw path, before anything is parsed."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sgrt.server.config import ServerConfig
from sgrt.server.errors import ApiError

PUBLIC_PATHS = frozenset({"/health", "/v1/health", "/ready"})
ADMIN_PATHS = frozenset({"/flush_cache", "/server_info"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request. `salt` separates the caller's cached prefixes from those of other keys."""

    salt: str


class Gatekeeper:
    """Checks keys. It holds digests only, and always compares against all of them."""

    def __init__(self, config: ServerConfig) -> None:
        self._keys = tuple(map(_digest, config.api_keys))
        self._admin_keys = tuple(map(_digest, config.admin_keys))

    def admit(self, path: str, headers: Mapping[bytes, bytes]) -> Caller:
        """The caller of a request for the raw `path`.

        Raises:
            ApiError: status 401; a key is needed and none or a wrong one came.
        """
        if path in PUBLIC_PATHS:
            return Caller(salt="")
        digest = _digest(_key(headers))
        is_admin = _is_among(digest, self._admin_keys)
        if not self._keys and not (self._admin_keys and path in ADMIN_PATHS):
            return Caller(salt="")
        if path in ADMIN_PATHS and not is_admin:
            raise _unauthorised("this path needs an admin key (--admin-key)")
        if not (is_admin or _is_among(digest, self._keys)):
            raise _unauthorised("a valid API key is needed")
        return Caller(salt=digest.hex()[:32])


def _unauthorised(message: str) -> ApiError:
    return ApiError(401, message, kind="authentication_error", code="invalid_api_key")


def _key(headers: Mapping[bytes, bytes]) -> str:
    authorization = headers.get(b"authorization", b"").decode("latin-1")
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return headers.get(b"x-api-key", b"").decode("latin-1")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _is_among(digest: bytes, known: Iterable[bytes]) -> bool:
    found = False
    for candidate in known:  # no early exit: the time tells nothing about which key matched
        found |= hmac.compare_digest(digest, candidate)
    return found
