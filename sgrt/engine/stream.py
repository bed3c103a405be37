"""A call in progress: its chunks for whoever asks, and the means to end it early."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

from sgrt.engine.completion import Completion, collect, gathered
from sgrt.engine.job import GenerateJob
from sgrt.engine.loop import EngineLoop
from sgrt.engine.mailbox import Mailbox
from sgrt_frontend.call import Chunk


class Stream:
    """Chunks of one call, read once, by one thread or one event loop.

    Leaving its context cancels the call if it still runs. Errors of the call are raised while reading.
    """

    def __init__(self, loop: EngineLoop, job: GenerateJob, mailbox: Mailbox[Chunk]) -> None:
        self._loop = loop
        self._job = job
        self._mailbox = mailbox

    def __iter__(self) -> Iterator[Chunk]:
        """Chunks as they come; blocks the calling thread."""
        return iter(self._mailbox)

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        """Chunks as they come; where the call has an interval, of each output what is there together is one."""
        async for batch in self._mailbox.batches():
            for chunk in gathered(batch):
                yield chunk

    @property
    def is_over(self) -> bool:
        """Whether all outputs have ended, read or not."""
        return self._mailbox.is_over

    def completions(self) -> tuple[Completion, ...]:
        """Wait for the end; one completion per output. Nothing may have been read before."""
        return collect(self._mailbox.collect())

    def cancel(self) -> None:
        """End the call now and free its pages; harmless when it is over."""
        self._loop.cancel(self._job)

    def cancel_output(self, index: int) -> None:
        """End one output now and free its pages; the others go on."""
        self._loop.cancel_output(self._job, index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
