"""What the processor is and can do: part of the key under which compiled code is cached."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_MODEL_KEYS = ("model name", "CPU part", "cpu model", "cpu")
_FEATURE_KEYS = ("flags", "Features", "features", "isa")


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """One processor, as the operating system describes it."""

    machine: str  # such as x86_64 or aarch64
    model: str  # empty where the system does not say
    features: frozenset[str]  # such as avx2, avx512_vnni; empty where the system does not say


def parse_cpuinfo(text: str, machine: str) -> Processor:
    """The first processor of a Linux `cpuinfo` text."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.strip(), value.strip())
    model = next((fields[key] for key in _MODEL_KEYS if key in fields), "")
    features = next((fields[key] for key in _FEATURE_KEYS if key in fields), "")
    return Processor(machine=machine, model=model, features=frozenset(features.split()))


@cache
def this_processor() -> Processor:
    """The processor this process runs on."""
    machine = platform.machine()
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Processor(machine=machine, model=platform.processor(), features=frozenset())
    return parse_cpuinfo(text, machine)
