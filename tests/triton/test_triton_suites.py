"""Runs the kernel suites, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITES = Path(__file__).parent


def run_suite(name: str, markers: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "SGRT_TRITON_SUITE": name,
        "PYTHONPATH": os.pathsep.join(sys.path),
        **variables,
    }
    environment["TRITON_DEFAULT_FP_FUSION"] = "1"
    environment["TRITON_INTERPRET"] = "1" if name == "interpreted" else "0"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        markers,
        str(SUITES / name),
    ]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def assert_passed(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, f"{result.stdout[-6000:]}\n{result.stderr[-2000:]}"


@pytest.mark.timeout(900)
def test_interpreted_kernels_agree_with_their_references() -> None:
    assert_passed(run_suite("interpreted", "not slow"))


@pytest.mark.timeout(900)
def test_kernels_compile_ahead_of_time_within_their_limits() -> None:
    assert_passed(run_suite("compiled", "not slow"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_more_shapes_of_interpreted_kernels_agree_with_their_references() -> None:
    assert_passed(run_suite("interpreted", "slow"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_interpreted_kernels_pass_with_overflow_checks_and_device_assertions() -> None:
    assert_passed(run_suite("interpreted", "not slow", SGRT_TRITON_SANITIZE="1"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_more_kernels_compile_ahead_of_time_within_their_limits() -> None:
    assert_passed(run_suite("compiled", "slow"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("suite", "markers"), [("interpreted", "not slow"), ("compiled", "slow or not slow")]
)
def test_the_suites_pass_on_an_older_triton(suite: str, markers: str, tmp_path: Path) -> None:
    older = os.environ.get("SGRT_OLDER_TRITON")
    if older is None:
        pytest.skip("set SGRT_OLDER_TRITON to a folder that triton 3.6 was installed into (pip --target)")
    path = os.pathsep.join([older, *sys.path])
    assert_passed(run_suite(suite, markers, PYTHONPATH=path, TRITON_CACHE_DIR=str(tmp_path)))
