"""Times and counts of one call's outputs, for the metrics."""

from __future__ import annotations

from collections.abc import Callable

from sgrt.server.metrics import ServerMetrics
from sgrt_frontend.call import Chunk, Finish, StopReason, Usage


class OutputClock:
    """Times and counts the chunks of one call."""

    def __init__(self, metrics: ServerMetrics, clock: Callable[[], float], *, prompt_tokens: int) -> None:
        self._metrics = metrics
        self._clock = clock
        self._prompt_tokens = prompt_tokens
        self._started = clock()
        self._counts: dict[int, int] = {}  # tokens of the outputs that have not finished
        self._cached: dict[int, int] = {}
        self._queued_s: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._first: dict[int, float] = {}
        self._has_prompt = False

    @property
    def has_tokens(self) -> bool:
        """Whether any output has begun."""
        return bool(self._first)

    def note(self, chunk: Chunk) -> None:
        """Count one chunk."""
        now, index = self._clock(), chunk.index
        self._counts[index] = self._counts.get(index, 0) + len(chunk.token_ids)
        if chunk.cached_tokens is not None:
            self._cached[index] = chunk.cached_tokens
        if chunk.queued_s is not None:
            self._queued_s[index] = chunk.queued_s
        if chunk.token_ids:
            if index in self._last:
                self._metrics.next_tokens(len(chunk.token_ids), now - self._last[index])
            else:
                self._first[index] = now
                self._metrics.first_token(now - self._started)
            self._last[index] = now
            self._metrics.tokens(len(chunk.token_ids))
        if chunk.finish is not None:
            self._finish(index, chunk.finish)

    def close(self, reason: StopReason) -> None:
        """No more chunks come: outputs that have begun and not finished ended for this reason."""
        for index, count in list(self._counts.items()):
            usage = Usage(
                prompt_tokens=self._prompt_tokens,
                cached_tokens=self._cached.get(index, 0),
                output_tokens=count,
            )
            self._finish(index, Finish(reason=reason, usage=usage))

    def _finish(self, index: int, finish: Finish) -> None:
        self._counts.pop(index, None)
        metrics, usage = self._metrics, finish.usage
        metrics.success.add(finished_reason=finish.reason.value)
        metrics.output_length.observe(usage.output_tokens)
        metrics.forced_tokens.add(usage.forced_tokens)
        self._note_phases(index)
        if index in self._first and usage.output_tokens > 1:
            seconds = self._last[index] - self._first[index]
            metrics.per_token.observe(seconds / (usage.output_tokens - 1))
        if not self._has_prompt:
            self._has_prompt = True
            metrics.prompt_length.observe(usage.prompt_tokens)
            metrics.prompt_tokens.add(usage.prompt_tokens)
            metrics.prefix_queries.add(usage.prompt_tokens)
        elif usage.cached_tokens == 0:
            return
        metrics.cached_tokens.add(usage.cached_tokens)
        metrics.prefix_hits.add(usage.cached_tokens)
        metrics.shared_tokens.add(usage.cached_tokens)

    def _note_phases(self, index: int) -> None:
        """Where the time of an output went; nothing where the backend does not say when it began."""
        if index not in self._first or index not in self._queued_s:
            return
        metrics, queued_s = self._metrics, self._queued_s[index]
        first_s, last_s = self._first[index] - self._started, self._last[index] - self._started
        metrics.queue_time.observe(queued_s)
        metrics.prefill_time.observe(max(0.0, first_s - queued_s))
        metrics.decode_time.observe(last_s - first_s)
        metrics.inference_time.observe(max(0.0, last_s - queued_s))
