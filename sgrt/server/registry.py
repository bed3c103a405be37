"""Counters, gauges and histograms in Prometheus' text format (version 0.0.4). One thread writes them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Counter:
    """A number that only grows. Its exposed name ends in `_total`."""

    def __init__(self, name: str, help_text: str) -> None:
        self.name = name if name.endswith("_total") else f"{name}_total"
        self.help_text = help_text
        self.kind = "counter"
        self._values: dict[Labels, float] = {}

    def add(self, amount: float = 1.0, **labels: str) -> None:
        """Count `amount` (at least 0) under these labels."""
        assert amount >= 0, f"{self.name} cannot shrink by {amount}"
        key = tuple(sorted(labels.items()))
        self._values[key] = self._values.get(key, 0.0) + amount

    @property
    def total(self) -> float:
        """The sum over all labels."""
        return sum(self._values.values())

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """(name, labels, value) of every label set; an unlabelled counter shows its 0."""
        for labels, value in (self._values or {(): 0.0}).items():
            yield self.name, labels, value


class Gauge:
    """A number that goes up and down: set, or read from a function when it is asked for."""

    def __init__(
        self, name: str, help_text: str, read: Callable[[], float] | None = None, *, labels: Labels = ()
    ) -> None:
        self.name = name
        self.help_text = help_text
        self.kind = "gauge"
        self._labels = labels
        self._read = read
        self._value = 0.0

    @property
    def value(self) -> float:
        """The value now."""
        return self._read() if self._read else self._value

    def add(self, amount: float) -> None:
        """Change the value by `amount`."""
        self._value += amount

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """The one sample."""
        yield self.name, self._labels, self.value


class Histogram:
    """Counts of observations at or below each bound."""

    def __init__(
        self,
        name: str,
        help_text: str,
        bounds: Sequence[float],
        *,
        counts: Sequence[int] | None = None,
        total: float = 0.0,
    ) -> None:
        """What was counted elsewhere comes as `counts`, up to each bound and behind the last, and their `total`."""
        self.name = name
        self.help_text = help_text
        self.kind = "histogram"
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1) if counts is None else list(counts)
        self._sum = total

    def observe(self, value: float) -> None:
        """Count one observation."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        """How many observations were made."""
        return sum(self._counts)

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """Cumulative buckets, sum and count."""
        running = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            running += count
            yield f"{self.name}_bucket", (("le", _number(bound)),), float(running)
        yield f"{self.name}_sum", (), self._sum
        yield f"{self.name}_count", (), float(running)


Metric = Counter | Gauge | Histogram


def expose(groups: Sequence[tuple[Labels, Sequence[Metric]]]) -> str:
    """The text a scraper reads: groups of metrics with the labels that are put on every sample of theirs.

    Metrics of one name stand together, whatever their group.
    """
    lines: dict[str, list[str]] = {}
    for labels, metrics in groups:
        for metric in metrics:
            head = [f"# HELP {metric.name} {metric.help_text}", f"# TYPE {metric.name} {metric.kind}"]
            block = lines.setdefault(metric.name, head)
            for name, own, value in metric.samples():
                block.append(f"{name}{_braces(labels + own)} {_number(value)}")
    return "".join(f"{line}\n" for block in lines.values() for line in block)


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
