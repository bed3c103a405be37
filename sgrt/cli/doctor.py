"""`sgrt doctor`: say what runs here, how fast it can be, and what would make it faster."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from sgrt_kernels.device import UnsupportedDeviceError, gpu_properties, num_gpus, usable_device
from sgrt_kernels.native.library import kernels
from sgrt_kernels.native.machine_limits import MachineLimits, measure_limits
from sgrt_kernels.native.weights import ThreadTeam, usable_threads
from sgrt_native import NativeUnavailable
from sgrt_native.processor import Processor, this_processor

_SHOWN_FEATURES = ("avx2", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "asimddp", "i8mm")
_LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SLOW_READ = 20e9  # bytes a second below which memory, not the kernels, is what to look at


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What was found; `limits` and `variant` are None where the kernels cannot be built, for `reason`."""

    processor: Processor
    threads: int
    compiler: str | None
    variant: str | None
    reason: str
    limits: MachineLimits | None
    large_pages: str  # the system's setting: always, madvise, never, or empty where there is none
    load: float  # runnable processes, averaged over a minute


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "doctor",
        help="say what runs here and how fast",
        description="Say which path is active, what the processor and the memory can do, and what would help.",
    )
    parser.add_argument("--threads", type=int, default=None, help="CPU threads (default: all cores)")


def run(arguments: argparse.Namespace) -> int:
    """Print the diagnosis; 0 if the fast path is active, else 1."""
    threads = arguments.threads or usable_threads()
    diagnosis = diagnose(threads)
    for name, value in rows(diagnosis):
        print(f"{name:<11} {value}")
    for line in advice(diagnosis):
        print(f"- {line}")
    return 0 if diagnosis.variant is not None else 1


def diagnose(threads: int) -> Diagnosis:
    """Build or load the kernels and measure the machine; under a second once they are built."""
    variant, reason, limits = None, "", None
    try:
        library = kernels()
    except NativeUnavailable as error:
        reason = str(error)
    else:
        variant = library.sgrt_vector_name().decode()
        with ThreadTeam(library, threads) as team:
            limits = measure_limits(team)
    return Diagnosis(
        processor=this_processor(),
        threads=threads,
        compiler=shutil.which(os.environ.get("CXX") or "c++"),
        variant=variant,
        reason=reason,
        limits=limits,
        large_pages=_large_pages(),
        load=os.getloadavg()[0],
    )


def rows(diagnosis: Diagnosis) -> Iterable[tuple[str, str]]:
    """What to print, as names and values."""
    processor = diagnosis.processor
    features = " ".join(feature for feature in _SHOWN_FEATURES if feature in processor.features)
    yield "sgrt", f"{importlib.metadata.version('sgrt')}, Python {platform.python_version()}"
    yield "torch", _version("torch")
    yield "processor", f"{processor.model or processor.machine}, {features or 'no vector features reported'}"
    yield "threads", f"{diagnosis.threads} of {usable_threads()} usable"
    yield "compiler", diagnosis.compiler or "none"
    if diagnosis.variant is not None:
        yield "CPU path", f"native kernels, {diagnosis.variant}"
    else:
        yield "CPU path", f"plain torch: {diagnosis.reason}"
    if diagnosis.limits is not None:
        yield "memory", f"reads {diagnosis.limits.read_bytes_per_s / 1e9:.1f} GB/s"
        yield "int8", f"{diagnosis.limits.multiplies_per_s / 1e9:.0f} billion multiply-accumulates a second"
    yield "large pages", diagnosis.large_pages or "not offered by this system"
    yield "GPU", gpus_in_words()


def gpus_in_words() -> str:
    """The GPUs that `--device` can name; or why there are none."""
    try:
        usable_device("cuda")
    except UnsupportedDeviceError as error:
        return f"none: {error}"
    found = [(f"cuda:{index}", gpu_properties(torch.device("cuda", index))) for index in range(num_gpus())]
    return ", ".join(f"{name} {gpu.name} ({gpu.total_bytes >> 30} GiB, sm_{gpu.arch})" for name, gpu in found)


def advice(diagnosis: Diagnosis) -> Iterable[str]:
    """What would make it faster, most important first; nothing where all is well."""
    if diagnosis.variant is None:
        yield "without the native kernels models run many times slower: see the reason above"
    elif diagnosis.variant.startswith("portable"):
        yield "the kernels run without vector instructions of their own: x86 with AVX2 or AVX-512 VNNI is tuned"
    elif diagnosis.variant == "AVX2":
        yield "int8 products take twice the instructions: a processor with AVX-512 VNNI prefills faster"
    if diagnosis.threads < usable_threads():
        yield f"{usable_threads() - diagnosis.threads} usable processors are left idle by --threads"
    if diagnosis.large_pages == "never":
        yield f"large pages are off; as root: echo madvise > {_LARGE_PAGES}"
    if diagnosis.load > usable_threads():
        yield f"other work keeps the machine busy (load {diagnosis.load:.1f}); speeds above are what it leaves"
    if diagnosis.limits is not None and diagnosis.limits.read_bytes_per_s < _SLOW_READ:
        yield "reading weights from memory bounds decoding: a smaller quantization is faster in proportion"


def _version(package: str) -> str:
    if importlib.util.find_spec(package) is None:
        return "not installed"
    return importlib.metadata.version(package)


def _large_pages() -> str:
    """The setting in brackets of the kernel's list."""
    try:
        text = _LARGE_PAGES.read_text(encoding="ascii")
    except OSError:
        return ""
    return text.partition("[")[2].partition("]")[0]
