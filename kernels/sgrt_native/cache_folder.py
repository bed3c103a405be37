"""The private folder of compiled libraries.

A library is code that runs with the user's rights, so folder and files must belong to the user and be writable by
nobody else; anything else is refused, never repaired.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from sgrt_native.errors import NativeUnavailable

if sys.platform != "win32":
    import fcntl


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/sgrt/native` (default `~/.cache`), made with mode 0700 and checked."""
    if sys.platform == "win32":
        raise NativeUnavailable("native code needs a POSIX system (Linux or macOS)")
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    folder = root / "sgrt" / "native"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        check_private(folder, folder.lstat(), is_folder=True)
    except OSError as error:
        raise NativeUnavailable(
            f"cannot use the cache folder {folder}: {error}; set XDG_CACHE_HOME to a folder of yours"
        ) from error
    return folder


def check_private(path: Path, status: os.stat_result, *, is_folder: bool) -> None:
    """Raise NativeUnavailable unless the path is ours, of the right kind and closed to others' writes."""
    right_kind = stat.S_ISDIR(status.st_mode) if is_folder else stat.S_ISREG(status.st_mode)
    forbidden = 0o077 if is_folder else 0o022
    if not right_kind:
        raise NativeUnavailable(f"{path} is not a plain {'folder' if is_folder else 'file'}; remove it")
    if status.st_uid != os.getuid():
        raise NativeUnavailable(f"{path} belongs to user {status.st_uid}, not to {os.getuid()}; remove it")
    if status.st_mode & forbidden:
        raise NativeUnavailable(
            f"{path} has mode {stat.S_IMODE(status.st_mode):04o}, so others could change it; "
            f"remove it or run: chmod go-rwx {path}"
        )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes on the file, which is made if absent."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
