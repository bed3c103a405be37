"""A progress bar over the prompts of a batch, in the order in which they end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sgrt.engine.stats import EngineStats
from sgrt.engine.stream import Stream
from sgrt_frontend.progress import Progress

_PERIOD_S = 0.1


class Reached(NamedTuple):
    """How far a batch is."""

    prompts: int  # that have ended
    tokens: int  # of output since the batch began, of prompts that still run too


class Watch:
    """Looks at a batch from outside: nothing that runs is woken or slowed by it."""

    def __init__(self, streams: Sequence[Stream], counters: EngineStats) -> None:
        self._streams = streams
        self._counters = counters
        self._tokens_before = counters.output_tokens

    def look(self) -> Reached:
        """How far it is now."""
        return Reached(
            prompts=sum(stream.is_over for stream in self._streams),
            tokens=self._counters.output_tokens - self._tokens_before,
        )


@contextmanager
def progress_bar(streams: Sequence[Stream], counters: EngineStats) -> Iterator[None]:
    """A bar on the terminal over the prompts of `streams`."""
    watch, is_over = Watch(streams, counters), threading.Event()
    with Progress("prompts", len(streams)) as progress:
        thread = threading.Thread(
            target=_follow, args=(progress, watch, is_over), name="sgrt-progress", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def _follow(progress: Progress, watch: Watch, is_over: threading.Event) -> None:
    start = time.monotonic()
    has_ended = False
    while not has_ended:
        has_ended = is_over.wait(_PERIOD_S)
        reached = watch.look()
        seconds = time.monotonic() - start
        note = f"{reached.tokens} tokens, {reached.tokens / seconds:.0f}/s" if seconds else ""
        progress.reach(reached.prompts, note=note)
