"""What the engine's thread is handed: a request with all that was prepared for it elsewhere, and where results go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sgrt.engine.output_text import OutputText
from sgrt.engine.score_tree import PathScores
from sgrt.request import Request
from sgrt_frontend.call import Chunk

Item = TypeVar("Item", contravariant=True)


class Sink(Protocol[Item]):
    """Where results of a job go. Called on the engine's thread; must not block."""

    def push(self, item: Item) -> None:
        """One more result."""
        ...

    def fail(self, error: Exception) -> None:
        """The job failed; nothing follows."""
        ...

    def close(self) -> None:
        """The job is complete; nothing follows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GenerateJob:
    """Generate `request.sampling.n` outputs. `make_text` gives each one its decoder and stop strings."""

    request: Request
    make_text: Callable[[], OutputText]
    sink: Sink[Chunk]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreJob:
    """Score what each request's rows are asked for; results carry the request's place."""

    requests: tuple[Request, ...]
    sink: Sink[tuple[int, PathScores]]


Job = GenerateJob | ScoreJob
