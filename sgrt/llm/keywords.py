"""Keywords of `LLM` that mean something else here, or nothing: refused by name unless harmless."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from sgrt.errors import InvalidRequest

T = TypeVar("T")

_HARMLESS = frozenset(
    {"trust_remote_code", "enforce_eager", "disable_log_stats", "swap_space", "disable_custom_all_reduce"}
)
_MUST_BE: Mapping[str, tuple[object, ...]] = {
    "tensor_parallel_size": (1,),
    "pipeline_parallel_size": (1,),
    "tokenizer": (None,),
    "tokenizer_mode": ("auto",),
    "quantization": (None, "gguf"),
    "load_format": ("auto", "gguf"),
    "enable_chunked_prefill": (True,),
    "enable_lora": (False,),
}


def one_of(name: str, value: str, known: Mapping[str, T]) -> T:
    """What `value` stands for.

    Raises:
        InvalidRequest: it is none of `known`.
    """
    if value not in known:
        raise InvalidRequest(f"{name}: must be one of {', '.join(known)}, not {value!r}", param=name)
    return known[value]


def check_others(others: Mapping[str, object]) -> None:
    """Accept what cannot change a result.

    Raises:
        InvalidRequest: a keyword is unknown, or has a value that is not supported.
    """
    for name, value in others.items():
        if name in _HARMLESS:
            continue
        if name not in _MUST_BE:
            raise InvalidRequest(
                f"{name}: LLM does not know this keyword; it takes model, enable_prefix_caching, max_model_len, "
                "max_num_seqs, max_num_batched_tokens, gpu_memory_utilization, block_size, dtype, kv_cache_dtype, "
                "seed, device, threads",
                param=name,
            )
        if value not in _MUST_BE[name]:
            allowed = " or ".join(map(repr, _MUST_BE[name]))
            raise InvalidRequest(f"{name}: only {allowed} is supported, not {value!r}", param=name)
