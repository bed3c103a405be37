"""How much work is let in: in-flight outputs and prompt tokens are counted, the rest is told to come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sgrt.server.config import ServerConfig
from sgrt.server.errors import ApiError


class Admission:
    """Counts what is in flight. Refusal is at once and says when to come back; waiting happens in the engine."""

    def __init__(self, config: ServerConfig, on_refusal: Callable[[str], None] = lambda code: None) -> None:
        self._on_refusal = on_refusal
        self._limits = config.limits
        self._retry_after_s = config.retry_after_s
        self._num_sequences = 0
        self._num_tokens = 0
        self._num_requests = 0
        self._is_draining = False

    @property
    def num_sequences(self) -> int:
        """Outputs in flight, waiting ones among them."""
        return self._num_sequences

    @property
    def num_requests(self) -> int:
        """Requests in flight."""
        return self._num_requests

    @property
    def is_draining(self) -> bool:
        """Whether new work is refused because the server is going down."""
        return self._is_draining

    def drain(self) -> None:
        """Refuse all work from now on; what is in flight goes on."""
        self._is_draining = True

    @property
    def shutting_down(self) -> ApiError:
        """What is told to those whom a server that goes down does not serve."""
        return self._overloaded("the server is shutting down", "shutting_down")

    @contextmanager
    def admit(self, *, sequences: int, prompt_tokens: int) -> Iterator[None]:
        """Hold a place for `sequences` outputs over `prompt_tokens` tokens in all.

        Raises:
            ApiError: status 503 with Retry-After; the server is full or going down.
        """
        self._check(sequences, prompt_tokens)
        self._num_requests += 1
        self._num_sequences += sequences
        self._num_tokens += prompt_tokens
        try:
            yield
        finally:
            self._num_requests -= 1
            self._num_sequences -= sequences
            self._num_tokens -= prompt_tokens

    def _check(self, sequences: int, prompt_tokens: int) -> None:
        if self._is_draining:
            self._on_refusal("shutting_down")
            raise self.shutting_down
        if self._num_sequences + sequences > self._limits.inflight_sequences:
            raise self._refusal(
                f"{self._num_sequences} outputs are in flight; at most "
                f"{self._limits.inflight_sequences} are taken",
                "queue_full",
            )
        has_work = self._num_sequences > 0  # one request alone is never too big for an idle server
        if has_work and self._num_tokens + prompt_tokens > self._limits.inflight_prompt_tokens:
            raise self._refusal(
                f"{self._num_tokens} prompt tokens are in flight; at most "
                f"{self._limits.inflight_prompt_tokens} are taken",
                "queued_tokens_full",
            )

    def _refusal(self, message: str, code: str) -> ApiError:
        self._on_refusal(code)
        return self._overloaded(message, code)

    def _overloaded(self, message: str, code: str) -> ApiError:
        return ApiError(503, message, kind="overloaded_error", code=code, retry_after_s=self._retry_after_s)
