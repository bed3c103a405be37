"""The pool is sized by what the process may take, in a container as on the bare machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgrt.engine.host_memory import available_host_bytes

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The files of a machine of 64 GiB without control groups."""
    write(tmp_path, "proc/meminfo", f"MemTotal: {80 << 20} kB\nMemAvailable: {64 << 20} kB\n")
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def version_2(root: Path, group: str, *, limit: str, usage: int, inactive: int = 0) -> None:
    write(root, f"sys/fs/cgroup{group}/memory.max", f"{limit}\n")
    write(root, f"sys/fs/cgroup{group}/memory.current", f"{usage}\n")
    write(root, f"sys/fs/cgroup{group}/memory.stat", f"anon 1\ninactive_file {inactive}\nactive_file 5\n")


def version_1(root: Path, group: str, *, limit: int, usage: int, inactive: int = 0) -> None:
    write(root, f"sys/fs/cgroup/memory{group}/memory.limit_in_bytes", f"{limit}\n")
    write(root, f"sys/fs/cgroup/memory{group}/memory.usage_in_bytes", f"{usage}\n")
    write(root, f"sys/fs/cgroup/memory{group}/memory.stat", f"cache 7\ntotal_inactive_file {inactive}\n")


def test_without_control_groups_it_is_what_the_machine_has(machine: Path) -> None:
    assert available_host_bytes(machine) == 64 * GIB


def test_the_limit_of_a_container_counts_less_what_it_uses(machine: Path) -> None:
    write(machine, "proc/self/cgroup", "0::/\n")
    version_2(machine, "", limit=str(8 * GIB), usage=3 * GIB, inactive=GIB)
    assert available_host_bytes(machine) == 6 * GIB


def test_a_group_without_a_limit_leaves_it_to_those_above(machine: Path) -> None:
    write(machine, "proc/self/cgroup", "0::/services/sgrt\n")
    version_2(machine, "/services/sgrt", limit="max", usage=3 * GIB)
    assert available_host_bytes(machine) == 64 * GIB
    version_2(machine, "/services", limit=str(16 * GIB), usage=4 * GIB)
    assert available_host_bytes(machine) == 12 * GIB


def test_the_first_version_of_control_groups_is_understood(machine: Path) -> None:
    write(machine, "proc/self/cgroup", "5:cpu,cpuacct:/docker/a\n4:memory:/docker/a\n0::/\n")
    version_1(
        machine, "", limit=8 * GIB, usage=2 * GIB, inactive=GIB
    )  # what a container sees: its own at the mount
    assert available_host_bytes(machine) == 7 * GIB
    version_1(machine, "", limit=9223372036854771712, usage=2 * GIB)
    assert available_host_bytes(machine) == 64 * GIB
    version_1(machine, "/docker/a", limit=4 * GIB, usage=GIB)
    assert available_host_bytes(machine) == 3 * GIB


def test_a_limit_above_the_machine_changes_nothing_and_a_full_group_has_nothing(machine: Path) -> None:
    write(machine, "proc/self/cgroup", "0::/\n")
    version_2(machine, "", limit=str(500 * GIB), usage=GIB)
    assert available_host_bytes(machine) == 64 * GIB
    version_2(machine, "", limit=str(GIB), usage=2 * GIB)
    assert available_host_bytes(machine) == 0


def test_this_machine_has_memory() -> None:
    assert available_host_bytes() > 0
