"""`sgrt pull MODEL`: fetch a model into the cache; a hub id goes into the hub's own cache."""

from __future__ import annotations

import argparse
import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from sgrt.checkpoint.location import resolve
from sgrt.checkpoint.published_model import PUBLISHED_MODELS
from sgrt.checkpoint.pull import Progress, pull
from sgrt.cli.options import add_model, model_of


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    known = "\n".join(
        f"  {model.name}  {model.file_name}, {model.size / 1e6:.0f} MB, {model.licence}"
        for model in PUBLISHED_MODELS.values()
    )
    parser = subparsers.add_parser(
        "pull",
        help="fetch a model into the cache",
        description="Fetch a model into the cache; one that is there already is not fetched again.",
        epilog=f"models:\n{known}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_model(parser, is_positional=True)


def run(arguments: argparse.Namespace) -> int:
    """Pull the model and print where it lies."""
    model = model_of(arguments)
    if "/" in model:
        path = resolve(model).path  # the hub's client shows its own progress
    elif sys.stderr.isatty():
        with _TerminalProgress() as bars:
            path = pull(model, bars)
    else:
        path = pull(model, _PlainProgress())
    print(path)
    return 0


class _TerminalProgress:
    """A bar per activity."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bars = Bars(*columns, console=Console(stderr=True))
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def begin(self, activity: str, total: int) -> None:
        self._finish()
        self._task = self._bars.add_task(activity, total=total or None)

    def advance_to(self, done: int) -> None:
        if self._task is not None:
            self._bars.update(self._task, completed=done)

    def _finish(self) -> None:
        if self._task is not None:
            total = self._bars.tasks[self._task].total
            self._bars.update(self._task, completed=total or 0)


class _PlainProgress:
    """A line per activity, for logs."""

    def begin(self, activity: str, total: int) -> None:
        size = f" {total / 1e6:.0f} MB" if total else ""
        print(f"{activity}{size}", file=sys.stderr, flush=True)

    def advance_to(self, done: int) -> None:
        """Lines are for new activities alone."""
