"""Building, caching and loading native code."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sgrt_native import NativeUnavailable, load_library
from sgrt_native.processor import parse_cpuinfo

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on the PATH")


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    home = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.delenv("SGRT_NATIVE", raising=False)
    return home


def write_sources(folder: Path, *, answer: int = 42) -> list[Path]:
    folder.mkdir(exist_ok=True)
    (folder / "answer.h").write_text(f"#define ANSWER {answer}\n")
    first, second = folder / "first.c", folder / "second.cc"
    first.write_text('#include "answer.h"\nint answer(void) { return ANSWER; }\n')
    second.write_text('extern "C" int twice(int x) { return [](int y) { return 2 * y; }(x); }\n')
    return [first, second]


def libraries(cache_home: Path) -> list[Path]:
    return sorted((cache_home / "sgrt" / "native").glob("*.so"))


@needs_compiler
def test_c_and_cpp_sources_make_one_library(cache_home: Path, tmp_path: Path) -> None:
    library = load_library("sample", write_sources(tmp_path / "src"))
    assert library.answer() == 42
    assert library.twice(21) == 42


@needs_compiler
def test_the_second_load_compiles_nothing_and_says_nothing(
    cache_home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sources = write_sources(tmp_path / "src")
    load_library("sample", sources)
    assert capfd.readouterr().err.count("\n") == 1
    before = [(path, path.stat().st_mtime_ns) for path in libraries(cache_home)]
    load_library("sample", sources)
    assert capfd.readouterr().err == ""
    assert [(path, path.stat().st_mtime_ns) for path in libraries(cache_home)] == before


@needs_compiler
def test_a_changed_header_is_compiled_anew(cache_home: Path, tmp_path: Path) -> None:
    assert load_library("sample", write_sources(tmp_path / "src")).answer() == 42
    assert load_library("sample", write_sources(tmp_path / "src", answer=43)).answer() == 43
    assert len(libraries(cache_home)) == 2


@needs_compiler
def test_flags_reach_the_compiler_and_the_key(cache_home: Path, tmp_path: Path) -> None:
    source = tmp_path / "flag.c"
    source.write_text("int flag(void) { return FLAG; }\n")
    assert load_library("flag", [source], flags=["-DFLAG=1"]).flag() == 1
    assert load_library("flag", [source], flags=["-DFLAG=2"]).flag() == 2


@needs_compiler
def test_floating_point_is_not_contracted(cache_home: Path, tmp_path: Path) -> None:
    source = tmp_path / "contract.c"
    source.write_text("double residue(double a, double b) { return a * a - b; }\n")
    library = load_library("contract", [source])
    library.residue.restype = ctypes.c_double
    library.residue.argtypes = [ctypes.c_double, ctypes.c_double]
    a = 1.0 + 2.0**-30
    assert library.residue(a, a * a) == 0.0


@needs_compiler
def test_the_folder_is_private(cache_home: Path, tmp_path: Path) -> None:
    load_library("sample", write_sources(tmp_path / "src"))
    assert (cache_home / "sgrt" / "native").stat().st_mode & 0o777 == 0o700


@needs_compiler
def test_a_folder_open_to_others_is_refused(cache_home: Path, tmp_path: Path) -> None:
    folder = cache_home / "sgrt" / "native"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(NativeUnavailable, match="mode 0777"):
        load_library("sample", write_sources(tmp_path / "src"))


@needs_compiler
def test_a_link_in_place_of_the_folder_is_refused(cache_home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (cache_home / "sgrt").mkdir(parents=True)
    (cache_home / "sgrt" / "native").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NativeUnavailable, match="not a plain folder"):
        load_library("sample", write_sources(tmp_path / "src"))


@needs_compiler
def test_a_library_that_others_may_write_is_refused(cache_home: Path, tmp_path: Path) -> None:
    sources = write_sources(tmp_path / "src")
    load_library("sample", sources)
    libraries(cache_home)[0].chmod(0o722)
    with pytest.raises(NativeUnavailable, match="others could change it"):
        load_library("sample", sources)


@needs_compiler
def test_a_source_that_does_not_compile_is_reported_and_leaves_nothing(
    cache_home: Path, tmp_path: Path
) -> None:
    source = tmp_path / "broken.c"
    source.write_text("int broken( {\n")
    with pytest.raises(NativeUnavailable, match=r"broken\.c"):
        load_library("broken", [source])
    assert libraries(cache_home) == []


@needs_compiler
def test_what_a_killed_build_left_is_removed(cache_home: Path, tmp_path: Path) -> None:
    left_over = cache_home / "sgrt" / "native" / "sample-killed"
    left_over.mkdir(parents=True)
    left_over.parent.chmod(0o700)
    load_library("sample", write_sources(tmp_path / "src"))
    assert not left_over.exists()


def test_the_environment_turns_native_code_off(
    cache_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGRT_NATIVE", "0")
    with pytest.raises(NativeUnavailable, match="SGRT_NATIVE"):
        load_library("sample", write_sources(tmp_path / "src"))


def test_a_missing_compiler_is_named(
    cache_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(NativeUnavailable, match="no-such-compiler"):
        load_library("sample", write_sources(tmp_path / "src"))


@needs_compiler
def test_processes_that_start_together_share_one_build(cache_home: Path, tmp_path: Path) -> None:
    sources = write_sources(tmp_path / "src")
    program = (
        "import pathlib, sys; from sgrt_native import load_library; "
        "print(load_library('sample', [pathlib.Path(p) for p in sys.argv[1:]]).answer())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, *map(str, sources)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    results = [process.communicate() for process in running]
    assert [output.strip() for output, _ in results] == ["42", "42", "42"]
    assert sum(errors.count("compiling") for _, errors in results) == 1


def test_cpuinfo_gives_model_and_features() -> None:
    x86 = parse_cpuinfo("processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx2\n", "x86_64")
    assert (x86.model, x86.features) == ("Some CPU", frozenset({"fpu", "avx2"}))
    arm = parse_cpuinfo("processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n", "aarch64")
    assert (arm.model, arm.features) == ("0xd0c", frozenset({"fp", "asimd"}))
