"""Files that a user names: read and written with one-line errors that say which file and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sgrt.errors import InvalidRequest


def read_bytes(path: Path, param: str) -> bytes:
    """What is in a file. `param` is what the user named it by.

    Raises:
        InvalidRequest: it cannot be read.
    """
    with _told(path, param):
        return path.read_bytes()


def read_text(path: Path, param: str) -> str:
    """The text of a file.

    Raises:
        InvalidRequest: it cannot be read, or is not UTF-8.
    """
    try:
        return read_bytes(path, param).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"{param}: {path} is not UTF-8 text (byte {error.start})", param=param
        ) from error


def read_json(path: Path, param: str) -> object:
    """The value in a JSON file.

    Raises:
        InvalidRequest: it cannot be read, or is not JSON; says where.
    """
    try:
        return json.loads(read_text(path, param))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidRequest(f"{param}: {path} is not JSON: {error}", param=param) from error


@contextmanager
def writing(path: Path, param: str) -> Iterator[None]:
    """Around what writes a file.

    Raises:
        InvalidRequest: it cannot be written.
    """
    with _told(path, param):
        yield


@contextmanager
def _told(path: Path, param: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidRequest(f"{param}: {path}: there is no such file or folder", param=param) from error
    except OSError as error:
        raise InvalidRequest(f"{param}: {path}: {error.strerror or error}", param=param) from error
