"""A progress bar on a terminal, nothing anywhere else. Standard output is the program's own."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class Progress:
    """Counts items of a batch. `is_shown=None` shows the bar when standard error is a terminal."""

    def __init__(self, name: str, total: int, *, is_shown: bool | None = None) -> None:
        console = Console(stderr=True)
        shown = console.is_terminal if is_shown is None else is_shown
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not shown,
        )
        self._task = self._bar.add_task(name, total=total, note="")
        self._failed = 0

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, *, is_failure: bool) -> None:
        """One more item is done."""
        self._failed += is_failure
        note = f"{self._failed} failed" if self._failed else ""
        self._bar.update(self._task, advance=1, note=note)

    def reach(self, count: int, *, note: str) -> None:
        """So many items are done by now; `note` stands behind the bar."""
        self._bar.update(self._task, completed=count, note=note)
