"""The system's C and C++ compilers: finding them, naming them, running them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sgrt_native.errors import NativeUnavailable

_CPP_SUFFIXES = frozenset({".cc", ".cpp", ".cxx"})

# -ffp-contract=off: the same source gives the same bits whether or not the processor has fused multiply-add.
_COMMON_FLAGS = ("-O3", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-pthread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """One compiler program and the text by which it names itself."""

    path: str
    identity: str

    @classmethod
    def find(cls, program: str, variable: str) -> Compiler:
        """The compiler named by the environment variable, else `program` on the PATH.

        Raises NativeUnavailable where there is none.
        """
        path = shutil.which(os.environ.get(variable) or program)
        if path is None:
            raise NativeUnavailable(
                f"no compiler {os.environ.get(variable) or program!r} on the PATH; "
                f"install one (Debian: apt install g++) or set {variable}"
            )
        return cls(path=path, identity=_identity(path))


def is_cpp(source: Path) -> bool:
    """Whether the file is C++ by its suffix."""
    return source.suffix in _CPP_SUFFIXES


def tuning_flags(machine: str) -> tuple[str, ...]:
    """The flags that let the compiler use all that this machine's processor can do."""
    return ("-mcpu=native",) if machine in ("aarch64", "arm64") else ("-march=native",)


def compile_flags(source: Path, machine: str) -> tuple[str, ...]:
    """Flags for one source file, without the caller's own."""
    standard = "-std=gnu++17" if is_cpp(source) else "-std=gnu11"
    return (*_COMMON_FLAGS, *tuning_flags(machine), standard)


def run_all(commands: Sequence[Sequence[str]]) -> None:
    """Run the commands, one on each processor at a time.

    Raises NativeUnavailable with the first failing one's messages.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        finished = list(pool.map(_run, commands))
    for done in finished:
        if done.returncode != 0:
            command = " ".join(done.args)
            raise NativeUnavailable(f"the compiler failed: {command}\n{done.stdout.strip()[:4000]}")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )


@cache
def _identity(path: str) -> str:
    """Version text, resolved path and size: changes whenever the compiler is upgraded."""
    try:
        version = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
        real = os.path.realpath(path)
        return f"{version}\n{real}\n{os.stat(real).st_size}"
    except (OSError, subprocess.SubprocessError) as error:
        raise NativeUnavailable(f"the compiler {path} does not run: {error}") from error
