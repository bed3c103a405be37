"""What a server may be told: where it listens, whom it serves and how much it takes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sgrt.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Upper bounds that keep one request from hurting the others. All are inclusive.

    Counts are per request unless the name says `inflight` (all requests together).
    """

    body_bytes: int = 4 * 1024 * 1024
    json_depth: int = 128
    sequences: int = 128  # prompts x n
    prompts: int = 128
    messages: int = 4096
    stop_strings: int = 16
    stop_string_chars: int = 1024
    stop_token_ids: int = 128
    logit_bias: int = 1024
    bad_words: int = 128
    top_logprobs: int = 20
    tools: int = 128
    schema_bytes: int = 512 * 1024
    continuations: int = 1024
    inflight_sequences: int = 1024
    inflight_prompt_tokens: int = 2_000_000
    stored_responses: int = 256
    sessions: int = 1024
    stored_bytes: int = 128 * 1024 * 1024  # of responses, and of sessions

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise InvalidRequest(f"limits.{name}: must be at least 1", param=f"limits.{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """A server's settings.

    `api_keys` empty means no key is asked for, which is refused off loopback unless `allow_open` says so.
    `model_names` are the names clients may use; empty means the backend's own name.
    `tool_format` names a format of `sgrt_grammars.tools`, `auto` picks by what the model's template and vocabulary show,
    `none` switches the parser off. `reasoning_format`: thoughts are told apart always, never, or where their marks are
    tokens of the vocabulary. `overload="shorten"` caps free answers
    at `overload_max_tokens` while more than half of the places are taken; `overload="smaller"` has a smaller model
    answer then.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    admin_keys: tuple[str, ...] = ()
    allow_open: bool = False
    model_names: tuple[str, ...] = ()
    tool_format: str = "auto"
    reasoning_format: Literal["auto", "on", "none"] = "auto"
    allowed_origins: tuple[str, ...] = ()
    log_requests: bool = False
    default_deadline_s: float | None = None
    overload: Literal["refuse", "shorten", "smaller"] = "refuse"
    overload_max_tokens: int = 128
    completion_max_tokens: int = 16
    retry_after_s: float = 1.0
    body_timeout_s: float = 30.0
    stall_timeout_s: float = 60.0
    keep_alive_s: float = 15.0
    drain_timeout_s: float = 30.0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InvalidRequest("port: must lie in [0, 65535] (0 picks a free one)", param="port")
        if any(not key for key in self.api_keys + self.admin_keys):
            raise InvalidRequest("api_keys: a key must not be empty", param="api_keys")
        if self.reasoning_format not in ("auto", "on", "none"):
            raise InvalidRequest(
                f"reasoning_format: must be auto, on or none, not {self.reasoning_format!r}",
                param="reasoning_format",
            )
        for name in ("overload_max_tokens", "completion_max_tokens"):
            if getattr(self, name) < 1:
                raise InvalidRequest(f"{name}: must be at least 1", param=name)
        if not self.api_keys and not self.allow_open and not self.is_loopback:
            raise InvalidRequest(
                f"host: {self.host} is reachable from other machines; set an API key "
                "(--api-key) or say --allow-open",
                param="host",
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")
