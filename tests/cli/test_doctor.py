"""`sgrt doctor`: what it reports and what it advises."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch

from sgrt.cli.doctor import Diagnosis, advice, rows
from sgrt.cli.main import main
from sgrt_kernels.native.library import kernels
from sgrt_kernels.native.machine_limits import MachineLimits
from sgrt_kernels.native.weights import usable_threads
from sgrt_native.processor import Processor

WELL = Diagnosis(
    processor=Processor(machine="x86_64", model="Some CPU", features=frozenset({"avx2", "avx512_vnni"})),
    threads=usable_threads(),
    compiler="/usr/bin/c++",
    variant="AVX-512 VNNI",
    reason="",
    limits=MachineLimits(read_bytes_per_s=50e9, multiplies_per_s=470e9),
    large_pages="madvise",
    load=0.0,
)


def test_a_good_machine_gets_no_advice() -> None:
    assert list(advice(WELL)) == []
    shown = dict(rows(WELL))
    assert shown["CPU path"] == "native kernels, AVX-512 VNNI"
    assert shown["memory"] == "reads 50.0 GB/s"
    assert "avx512_vnni" in shown["processor"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_is_told_what_that_takes() -> None:
    assert "none: 'cuda' is not there" in dict(rows(WELL))["GPU"]


@pytest.mark.parametrize(
    ("diagnosis", "word"),
    [
        (replace(WELL, variant=None, limits=None, reason="no compiler"), "without the native kernels"),
        (replace(WELL, variant="AVX2"), "AVX-512 VNNI"),
        (replace(WELL, variant="portable C++"), "vector instructions"),
        (replace(WELL, large_pages="never"), "large pages are off"),
        (replace(WELL, load=99.0), "busy"),
        (
            replace(WELL, limits=MachineLimits(read_bytes_per_s=9e9, multiplies_per_s=1e9)),
            "smaller quantization",
        ),
    ],
)
def test_each_ailment_has_its_advice(diagnosis: Diagnosis, word: str) -> None:
    assert any(word in line for line in advice(diagnosis))


def test_without_native_code_it_says_why_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels.cache_clear()
    monkeypatch.setenv("SGRT_NATIVE", "0")
    assert main(["doctor"]) == 1
    assert "plain torch: native code is turned off by SGRT_NATIVE=0" in capsys.readouterr().out
    kernels.cache_clear()


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler on the PATH")
def test_it_measures_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--threads", "1"]) == 0
    printed = capsys.readouterr().out
    assert "GB/s" in printed
    assert "CPU path    native kernels" in printed
