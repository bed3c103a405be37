"""The static performance table: issue over memory time of the decode kernels on an H200, without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sgrt_kernels.aot.catalogue import AttentionShape, decode, sealed_decode
from sgrt_kernels.aot.compiler import Launch, compile_launch
from sgrt_kernels.aot.issue_model import issue_ratio
from sgrt_kernels.aot.machine_code import machine_code
from sgrt_kernels.configurations import AttentionConfig, default_config

_ARCH = 90
_Builder = Callable[[AttentionShape, AttentionConfig], tuple[Launch, int]]

RATIO_CASES: Mapping[str, tuple[_Builder, AttentionShape]] = MappingProxyType(
    {
        "bfloat16, head 128, page 32": (decode, AttentionShape()),
        "sealed fp8, head 128, page 32": (sealed_decode, AttentionShape(code="fp8")),
        "sealed int8, head 128, page 32": (sealed_decode, AttentionShape(code="int8")),
        "sealed fp8, head 64, page 32": (sealed_decode, AttentionShape(code="fp8", head_dim=64)),
    }
)


def decode_ratio(name: str) -> float:
    """The ratio of one of RATIO_CASES under the default configuration and the running Triton."""
    build, shape = RATIO_CASES[name]
    launch, loop_bytes = build(shape, default_config(_ARCH, shape.head_dim, is_sealed=build is sealed_decode))
    return issue_ratio(machine_code(compile_launch(launch, _ARCH)), loop_bytes)


def ratio_table() -> dict[str, float]:
    """All ratios, rounded for a table."""
    return {name: round(decode_ratio(name), 2) for name in RATIO_CASES}
