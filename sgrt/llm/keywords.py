"""Keywords of `LLM`: what they mean here, and those that mean something else or nothing: refused unless harmless."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

from sgrt.config import ComputeMode, KvCacheDtype
from sgrt.errors import InvalidRequest

T = TypeVar("T")

TAKEN = (
    *("model", "enable_prefix_caching", "max_model_len", "max_num_seqs", "max_num_batched_tokens"),
    *("gpu_memory_utilization", "block_size", "dtype", "kv_cache_dtype", "seed", "device", "threads"),
)
_HARMLESS = frozenset(  # no value of theirs changes an output
    {
        "compilation_config",
        "disable_custom_all_reduce",
        "disable_log_requests",
        "disable_log_stats",
        "download_dir",
        "enable_log_requests",
        "enforce_eager",
        "max_logprobs",
        "max_seq_len_to_capture",
        "served_model_name",
        "swap_space",
        "trust_remote_code",
    }
)
_MUST_BE: Mapping[str, tuple[object, ...]] = {
    "async_scheduling": (False, None),
    "code_revision": (None,),
    "config_format": ("auto",),
    "cpu_offload_gb": (0,),
    "data_parallel_size": (1,),
    "distributed_executor_backend": (None,),
    "enable_chunked_prefill": (True, None),
    "enable_lora": (False,),
    "generation_config": ("auto", "vllm"),
    "hf_overrides": (None, {}),
    "hf_token": (None, False),
    "limit_mm_per_prompt": (None, {}),
    "load_format": ("auto", "gguf", "safetensors"),
    "logits_processors": (None, ()),
    "num_gpu_blocks_override": (None,),
    "override_generation_config": (None, {}),
    "pipeline_parallel_size": (1,),
    "quantization": (None, "gguf"),
    "revision": (None,),
    "rope_scaling": (None, {}),
    "rope_theta": (None,),
    "runner": ("auto", "generate"),
    "skip_tokenizer_init": (False,),
    "speculative_config": (None,),
    "task": ("auto", "generate", None),
    "tensor_parallel_size": (1,),
    "tokenizer": (None,),
    "tokenizer_mode": ("auto",),
    "tokenizer_revision": (None,),
}
_THEIR_NAMES: Mapping[str, str] = {  # of the engine's settings
    "context_tokens": "max_model_len",
    "max_running": "max_num_seqs",
    "memory_fraction": "gpu_memory_utilization",
    "page_tokens": "block_size",
    "prefix_caching": "enable_prefix_caching",
    "step_tokens": "max_num_batched_tokens",
}
_KV_DTYPES: Mapping[str, KvCacheDtype] = {
    "auto": "auto",
    "bfloat16": "bf16",
    "float32": "float32",
    "fp8": "fp8_e4m3",
    "fp8_e4m3": "fp8_e4m3",
    "int16": "int16",
    "int8": "int8",
}
_COMPUTE: Mapping[str, ComputeMode] = {"auto": "auto", "float": "float32", "float32": "float32"}
_REDUCED = frozenset({"bfloat16", "float16", "half"})


def compute_mode(dtype: str, device: str) -> ComputeMode:
    """What `dtype` asks for. On a GPU "auto" computes in bfloat16, so that may be asked for by name.

    Raises:
        InvalidRequest: it is unknown, or cannot be had on this device; says what can.
    """
    if dtype == "bfloat16" and device.startswith("cuda"):
        return "auto"
    if dtype in _REDUCED:
        raise InvalidRequest(
            f'dtype: {dtype!r} cannot be had on {device}; "auto" computes with the weights as the file stores them, in '
            'the fastest type of the device (bfloat16 on a GPU), "float32" computes exactly',
            param="dtype",
        )
    return one_of("dtype", dtype, _COMPUTE)


def kv_dtype(name: str) -> KvCacheDtype:
    """The type of keys and values.

    Raises:
        InvalidRequest: it is unknown.
    """
    return one_of("kv_cache_dtype", name, _KV_DTYPES)


def one_of(name: str, value: str, known: Mapping[str, T]) -> T:
    """What `value` stands for.

    Raises:
        InvalidRequest: it is none of `known`.
    """
    if value not in known:
        raise InvalidRequest(f"{name}: must be one of {', '.join(known)}, not {value!r}", param=name)
    return known[value]


def check_others(others: Mapping[str, object]) -> None:
    """Accept what cannot change a result, or asks for what is done anyway.

    Raises:
        InvalidRequest: a keyword is unknown, or has a value that is not supported.
    """
    for name, value in others.items():
        if name in _HARMLESS:
            continue
        if name not in _MUST_BE:
            alike = get_close_matches(name, (*TAKEN, *_MUST_BE, *_HARMLESS))
            meant = f" (did you mean {' or '.join(alike)}?)" if alike else ""
            raise InvalidRequest(
                f"{name}: LLM does not know this keyword{meant}; it takes {', '.join(TAKEN)}", param=name
            )
        if value not in _MUST_BE[name]:
            allowed = " or ".join(map(repr, _MUST_BE[name]))
            raise InvalidRequest(f"{name}: only {allowed} is supported, not {value!r}", param=name)


@contextmanager
def in_their_names() -> Iterator[None]:
    """Has errors about the engine's settings name the keywords of `LLM` that set them."""
    try:
        yield
    except InvalidRequest as error:
        message = re.sub(
            r"\b(" + "|".join(_THEIR_NAMES) + r")\b", lambda found: _THEIR_NAMES[found[1]], str(error)
        )
        if message == str(error):
            raise
        raise InvalidRequest(message, param=_THEIR_NAMES.get(error.param, error.param)) from None
