"""A progress bar over the prompts of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)


class Bar:
    """Counts finished prompts and tokens."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("prompts", total=total, rate="") if progress is not None else None
        self._tokens = 0

    def advance(self, tokens: int) -> None:
        """One prompt is done, with this many output tokens."""
        self._tokens += tokens
        if self._progress is not None and self._task is not None:
            task = self._progress.tasks[0]
            seconds = task.elapsed or 0.0
            rate = f"{self._tokens / seconds:.0f} tokens/s" if seconds else ""
            self._progress.update(self._task, advance=1, rate=rate)


@contextmanager
def progress_bar(total: int, *, is_shown: bool) -> Iterator[Bar]:
    """A bar for `total` prompts; it shows nothing unless `is_shown`, and is gone at the end."""
    if not is_shown:
        yield Bar(None, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, transient=True) as progress:
        yield Bar(progress, total)
