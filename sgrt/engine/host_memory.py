"""How much memory a process may still take on this machine: what the machine has, within what its control group may.

Formats: proc(5) for `/proc/meminfo` and `/proc/self/cgroup`; the kernel's cgroup-v2 and cgroup-v1 memory documents for
the rest. In a container the groups above its own are not to be seen; the one at the mount is its own then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Where a version of control groups keeps its numbers."""

    limit: str
    usage: str
    reclaimable: str  # the line of memory.stat with cached file pages that nothing used lately


_VERSION_1 = _Files(
    limit="memory.limit_in_bytes", usage="memory.usage_in_bytes", reclaimable="total_inactive_file"
)
_VERSION_2 = _Files(limit="memory.max", usage="memory.current", reclaimable="inactive_file")


def available_host_bytes(root: Path = Path("/")) -> int:
    """Bytes that can be taken without taking them from others or passing a limit; `root` holds `proc` and `sys`."""
    rooms = [_machine_bytes(root), *_group_rooms(root)]
    return max(0, min(rooms))


def _machine_bytes(root: Path) -> int:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _group_rooms(root: Path) -> Iterator[int]:
    """What each control group that this process is in, and each group above it, has left."""
    mount = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _rooms(mount, path, _VERSION_2)
        elif "memory" in controllers.split(","):
            yield from _rooms(mount / "memory", path, _VERSION_1)


def _rooms(mount: Path, path: str, files: _Files) -> Iterator[int]:
    group = mount / path.lstrip("/")
    while True:
        limit, usage = _number(group / files.limit), _number(group / files.usage)
        if limit is not None and usage is not None:
            yield limit - usage + _reclaimable(group, files)
        if group == mount:
            return
        group = group.parent


def _reclaimable(group: Path, files: _Files) -> int:
    for line in _lines(group / "memory.stat"):
        name, _, value = line.partition(" ")
        if name == files.reclaimable:
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    """The number in a file; None where there is no file, or the word `max` for no limit."""
    text = "".join(_lines(path))
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").splitlines()
    except OSError:  # no such version of control groups, or not for us to read
        return []
