"""What a server counts. Stems are those dashboards of other engines already know, under `sgrt:`."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sgrt.server.registry import Counter, Gauge, Histogram, Labels, Metric, expose

_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
_TOKENS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5)
_WINDOW_S = 60.0
_BUCKET_S = 1.0
_LOOK_S = 1.0

# What is counted once, however many models a server has.
_OF_THE_PROCESS = frozenset(
    {
        "process_resident_memory_bytes",
        "sgrt:http_responses_total",
        "sgrt:client_disconnects_total",
        "sgrt:degraded_requests_total",
        "error_rate",
    }
)

_STATM = Path("/proc/self/statm")

StatsReader = Callable[[], Mapping[str, float]]
StepSizes = tuple[Sequence[int], Sequence[int], int]
"""Bounds of tokens, steps up to each bound and behind the last, and the tokens of all."""

_WAITING = "num_requests_waiting_for_"


class Window:
    """The mean and the rate of what happened in the last minute, in buckets of a second: a bounded size at any rate."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._born = clock()
        self._buckets: deque[_Bucket] = deque()

    def add(self, value: float) -> None:
        """Note `value` now."""
        now = self._clock()
        if not self._buckets or now - self._buckets[-1].start_s >= _BUCKET_S:
            self._forget(now)
            self._buckets.append(_Bucket(start_s=now))
        bucket = self._buckets[-1]
        bucket.total += value
        bucket.count += 1

    @property
    def mean(self) -> float:
        """The mean value, 0 when nothing happened."""
        self._forget(self._clock())
        count = sum(bucket.count for bucket in self._buckets)
        return sum(bucket.total for bucket in self._buckets) / count if count else 0.0

    @property
    def per_second(self) -> float:
        """The sum of values over the length of the window."""
        now = self._clock()
        self._forget(now)
        length_s = min(_WINDOW_S, max(now - self._born, 1e-3))
        return sum(bucket.total for bucket in self._buckets) / length_s

    def _forget(self, now: float) -> None:
        while self._buckets and self._buckets[0].start_s < now - _WINDOW_S:
            self._buckets.popleft()


@dataclass(slots=True)
class _Bucket:
    """What happened within a second of `start_s`."""

    start_s: float
    total: float = 0.0
    count: int = 0


class ServerMetrics:
    """Every metric of one model of a server. `read_engine` gives the engine's own numbers by name, if it keeps any.

    `beside` are those of other models, which are exposed together; what is counted once for the whole process is
    counted here.
    """

    def __init__(
        self,
        *,
        model: str,
        clock: Callable[[], float],
        read_engine: StatsReader,
        read_steps: Callable[[], StepSizes | None] = lambda: None,
    ) -> None:
        self.beside: list[ServerMetrics] = []
        self._labels = (("model_name", model),)
        self._clock = clock
        self._last_look = (clock(), 0.0)
        self._busy = 0.0
        self._read_engine = read_engine
        self._read_steps = read_steps
        self.ttft = Histogram("sgrt:time_to_first_token_seconds", "Seconds to the first token.", _SECONDS)
        self.inter_token = Histogram("sgrt:inter_token_latency_seconds", "Seconds between tokens.", _SECONDS)
        self.per_token = Histogram(
            "sgrt:request_time_per_output_token_seconds", "Mean seconds per output token.", _SECONDS
        )
        self.end_to_end = Histogram(
            "sgrt:e2e_request_latency_seconds", "Seconds of a whole request.", _SECONDS
        )
        self.queue_time = Histogram(
            "sgrt:request_queue_time_seconds", "Seconds an output waited to be computed.", _SECONDS
        )
        self.prefill_time = Histogram(
            "sgrt:request_prefill_time_seconds", "Seconds from there to the first token.", _SECONDS
        )
        self.decode_time = Histogram(
            "sgrt:request_decode_time_seconds", "Seconds from the first token to the last.", _SECONDS
        )
        self.inference_time = Histogram(
            "sgrt:request_inference_time_seconds", "Seconds an output was computed.", _SECONDS
        )
        self.prompt_length = Histogram("sgrt:request_prompt_tokens", "Prompt tokens of a request.", _TOKENS)
        self.output_length = Histogram(
            "sgrt:request_generation_tokens", "Output tokens of an output.", _TOKENS
        )
        self.program_duration = Histogram(
            "sgrt:program_duration_seconds", "Seconds from the first to the last call of a session.", _SECONDS
        )
        self.prompt_tokens = Counter("sgrt:prompt_tokens", "Prompt tokens.")
        self.generation_tokens = Counter("sgrt:generation_tokens", "Output tokens.")
        self.cached_tokens = Counter("sgrt:prompt_tokens_cached", "Prompt tokens found in the prefix cache.")
        self.forced_tokens = Counter("sgrt:forced_tokens", "Output tokens that the constraint fixed.")
        self.shared_tokens = Counter(
            "sgrt:shared_tokens_saved", "Tokens not computed again thanks to sharing."
        )
        self.reencoded_tokens = Counter(
            "sgrt:reencoded_tokens_lost",
            "Tokens of earlier answers that encoding their text again would split otherwise; sessions keep them.",
        )
        self.prefix_queries = Counter("sgrt:prefix_cache_queries", "Prompt tokens looked up.")
        self.prefix_hits = Counter("sgrt:prefix_cache_hits", "Prompt tokens found.")
        self.success = Counter("sgrt:request_success", "Finished outputs by finish reason.")
        self.rejections = Counter("sgrt:admission_rejections", "Requests refused by reason.")
        self.degraded = Counter(
            "sgrt:degraded_requests", "Requests answered otherwise under load, by policy."
        )
        self.disconnects = Counter("sgrt:client_disconnects", "Requests given up by their client.")
        self.responses = Counter("sgrt:http_responses", "HTTP responses by route and status.")
        self.constrained = Counter("sgrt:constrained_requests", "Requests under a constraint by its kind.")
        self.running = Gauge("sgrt:num_requests_running", "Requests in work.")
        self.memory = Gauge("process_resident_memory_bytes", "Resident memory.", resident_bytes)
        self._recent_ttft, self._recent_tpot = Window(clock), Window(clock)
        self._recent_tokens, self._recent_errors = Window(clock), Window(clock)

    def first_token(self, seconds: float) -> None:
        """The first token of an output came after `seconds`."""
        self.ttft.observe(seconds)
        self._recent_ttft.add(seconds)

    def next_tokens(self, count: int, seconds: float) -> None:
        """`count` more tokens came `seconds` after the ones before."""
        for _ in range(count):
            self.inter_token.observe(seconds / count)
        self._recent_tpot.add(seconds / count)

    def tokens(self, count: int) -> None:
        """`count` output tokens were made."""
        self.generation_tokens.add(count)
        self._recent_tokens.add(count)

    def response(self, route: str, status: int) -> None:
        """An HTTP response went out."""
        self.responses.add(route=route, status=str(status))
        self._recent_errors.add(1.0 if status >= 500 else 0.0)

    def expose(self) -> str:
        """All metrics as text, those of other models too."""
        groups: list[tuple[Labels, list[Metric]]] = [(self._labels, self._all())]
        for other in self.beside:
            metrics = [metric for metric in other._all() if metric.name not in _OF_THE_PROCESS]
            groups.append((other._labels, metrics))
        return expose(groups)

    def _all(self) -> list[Metric]:
        stats = self._read_engine()
        theirs = [*_engine_metrics(stats), *_step_metrics(self._read_steps())]
        known = {metric.name for metric in theirs}  # what the engine counts itself it counts better
        own = [value for value in vars(self).values() if isinstance(value, Counter | Gauge | Histogram)]
        ours = [metric for metric in own if metric.name not in known]
        return [*ours, *self._plain(stats), *theirs]

    def _busy_share(self, forward_s: float) -> float:
        """The share of the time since the last look in which the device ran forward passes."""
        now, (then, before_s) = self._clock(), self._last_look
        if now - then > _LOOK_S:
            self._last_look = (now, forward_s)
            self._busy = min(1.0, (forward_s - before_s) / (now - then))
        return self._busy

    def _plain(self, stats: Mapping[str, float]) -> list[Metric]:
        """The seven figures people look at first, under the names they use, over the last minute."""
        waiting = stats.get("num_requests_waiting", 0.0)
        busy = self._busy_share(stats.get("forward_seconds_total", 0.0))
        return [
            Gauge("ttft", "Mean seconds to the first token, last minute.", lambda: self._recent_ttft.mean),
            Gauge("tpot", "Mean seconds per output token, last minute.", lambda: self._recent_tpot.mean),
            Gauge(
                "throughput", "Output tokens a second, last minute.", lambda: self._recent_tokens.per_second
            ),
            Gauge("gpu_utilization", "Share of time the device is busy.", lambda: busy),
            Gauge(
                "kv_cache_usage",
                "Share of cache pages in use.",
                lambda: stats.get("kv_cache_usage_perc", 0.0),
            ),
            Gauge("queue_length", "Requests that wait.", lambda: waiting),
            Gauge("error_rate", "Share of 5xx responses, last minute.", lambda: self._recent_errors.mean),
        ]


def resident_bytes() -> float:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        return 0.0
    return float(pages * mmap.PAGESIZE)


def _step_metrics(steps: StepSizes | None) -> list[Metric]:
    if steps is None:
        return []
    bounds, counts, total = steps
    name, text = "sgrt:iteration_tokens_total", "Tokens computed by a step of the engine."
    return [Histogram(name, text, bounds, counts=counts, total=total)]


def _engine_metrics(stats: Mapping[str, float]) -> list[Metric]:
    steps, mask_s = stats.get("engine_steps_total", 0.0), stats.get("mask_seconds_total", 0.0)
    per_step = mask_s / steps if steps else 0.0
    metrics: list[Metric] = [
        Gauge(
            "sgrt:mask_seconds_per_step", "Mean seconds of masks in a step of the engine.", lambda: per_step
        )
    ]
    for name, value in sorted(stats.items()):
        if name.startswith(_WAITING):
            labels = (("reason", name.removeprefix(_WAITING)),)
            gauge = Gauge(
                "sgrt:num_requests_waiting_by_reason", "Requests that wait, by reason.", labels=labels
            )
            gauge.add(value)
            metrics.append(gauge)
        elif name.endswith("_total"):
            counter = Counter(f"sgrt:{name}", "Counted by the engine.")
            counter.add(value)
            metrics.append(counter)
        else:
            gauge = Gauge(f"sgrt:{name}", "Read from the engine.")
            gauge.add(value)
            metrics.append(gauge)
    return metrics
