"""Compile once, cache, load: the one way native code comes into a process."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from sgrt_native.cache_folder import cache_folder, check_private, locked
from sgrt_native.compiler import Compiler, compile_flags, is_cpp, run_all
from sgrt_native.errors import NativeUnavailable
from sgrt_native.processor import Processor, this_processor

_HEADER_SUFFIXES = frozenset({".h", ".hpp", ".inc"})


def is_disabled() -> bool:
    """Whether the user turned native code off by `SGRT_NATIVE=0`."""
    return os.environ.get("SGRT_NATIVE", "") == "0"


def load_library(
    name: str, sources: Sequence[Path], *, include: Sequence[Path] = (), flags: Sequence[str] = ()
) -> ctypes.CDLL:
    """The library of these sources, compiled for this processor on first use.

    `include` are folders of headers; headers beside the sources are found anyway. `flags` are passed to the
    compiler and the linker after our own. Raises NativeUnavailable with the reason where there is no compiler,
    it fails, the cache folder is not private, or `SGRT_NATIVE=0` is set.
    """
    if is_disabled():
        raise NativeUnavailable("native code is turned off by SGRT_NATIVE=0")
    compilers = {
        cpp: Compiler.find("c++" if cpp else "cc", "CXX" if cpp else "CC")
        for cpp in set(map(is_cpp, sources))
    }
    key = _key(sources, include, flags, compilers.values(), this_processor())
    folder = cache_folder()
    target = folder / f"{name}-{key}.so"
    if not target.exists():
        with locked(folder / f"{name}.lock"):
            if not target.exists():
                _build(name, target, sources, include, flags, compilers)
    return _load(target)


def _build(
    name: str,
    target: Path,
    sources: Sequence[Path],
    include: Sequence[Path],
    flags: Sequence[str],
    compilers: dict[bool, Compiler],
) -> None:
    sys.stderr.write(f"sgrt: compiling native code '{name}' for this processor (once, a few seconds)\n")
    sys.stderr.flush()
    for left_over in target.parent.glob(f"{name}-*/"):  # of a build that was killed: we hold the lock
        shutil.rmtree(left_over, ignore_errors=True)
    machine = this_processor().machine
    includes = [f"-I{folder}" for folder in include]
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=target.parent) as scratch:
        objects = [Path(scratch) / f"{index}.o" for index in range(len(sources))]
        run_all(
            [
                [
                    compilers[is_cpp(source)].path,
                    *compile_flags(source, machine),
                    *includes,
                    *flags,
                    "-c",
                    str(source),
                    "-o",
                    str(output),
                ]
                for source, output in zip(sources, objects, strict=True)
            ]
        )
        linker = compilers[True] if True in compilers else compilers[False]
        library = Path(scratch) / "library.so"
        run_all([[linker.path, "-shared", "-pthread", *map(str, objects), *flags, "-lm", "-o", str(library)]])
        library.chmod(0o700)
        os.replace(library, target)


def _load(path: Path) -> ctypes.CDLL:
    check_private(path, path.lstat(), is_folder=False)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise NativeUnavailable(f"cannot load {path}: {error}; remove the file to build it anew") from error


def _key(
    sources: Sequence[Path],
    include: Sequence[Path],
    flags: Sequence[str],
    compilers: Iterable[Compiler],
    processor: Processor,
) -> str:
    """A digest of all that decides what the library does."""
    digest = hashlib.sha256()

    def add(part: bytes) -> None:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)

    for path in [*sources, *_headers([*include, *(source.parent for source in sources)])]:
        add(path.name.encode())
        add(path.read_bytes())
    for text in (*flags, *sorted(compiler.identity for compiler in compilers)):
        add(text.encode())
    for source in sources:
        add(" ".join(compile_flags(source, processor.machine)).encode())
    add(repr((processor.machine, processor.model, sorted(processor.features))).encode())
    return digest.hexdigest()[:32]


def _headers(folders: Iterable[Path]) -> list[Path]:
    unique = dict.fromkeys(folder.resolve() for folder in folders)
    return [path for folder in unique for path in sorted(folder.iterdir()) if path.suffix in _HEADER_SUFFIXES]
