"""What an engine is made of, and how it is put together from a model file."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import torch

from sgrt.cache.pool import KVPool, PoolShape
from sgrt.checkpoint.checkpoint import Checkpoint
from sgrt.checkpoint.opening import open_checkpoint
from sgrt.config import EngineConfig, KvCacheDtype, Limits, resolve_limits
from sgrt.engine.decode_graphs import DecodeGraphs
from sgrt.engine.host_memory import available_host_bytes
from sgrt.engine.native_runner import NativeRunner
from sgrt.engine.prefix_sharing import PrefixSharing
from sgrt.engine.runner import ModelRunner, Runner
from sgrt.engine.warm_up import warm_up
from sgrt.errors import InvalidRequest, UnsupportedModel
from sgrt.model.model import Model
from sgrt.model.native_decoder import DecoderUnsupported, NativeDecoder
from sgrt.model.packed_decoder import PackedDecoder
from sgrt.model.registry import load_model
from sgrt.tokenizer.chat_template import ChatTemplate
from sgrt.tokenizer.template_process import TemplateProcess
from sgrt.tokenizer.tokenizer import Tokenizer
from sgrt_kernels.device import (
    UnsupportedDeviceError,
    free_gpu_bytes,
    gpu_properties,
    graph_capture,
    usable_device,
)
from sgrt_kernels.integer_pages import TILE_TOKENS
from sgrt_kernels.layout import INTEGER_DTYPE
from sgrt_native.errors import NativeUnavailable

_log = logging.getLogger("sgrt")


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """A runner, and the tokenizer and template of its model.

    `summary` is one line about what was loaded and what the automatic settings became.
    """

    name: str
    runner: Runner
    limits: Limits
    tokenizer: Tokenizer
    template: ChatTemplate
    summary: str = ""
    close: Callable[[], None] = field(default=_nothing)


def load_parts(config: EngineConfig) -> EngineParts:
    """Open the model, load its weights, and lay out the KV pool.

    Raises:
        ModelError: the model cannot be found, read or run.
        InvalidRequest: a setting does not fit the model or the machine.
    """
    device = _device(config)
    checkpoint = open_checkpoint(config.model)
    tokenizer = Tokenizer(checkpoint.tokenizer_data)
    data = checkpoint.tokenizer_data
    closing = ExitStack()
    program = None
    if config.template_limit_s is not None and data.chat_template is not None:
        program = TemplateProcess(data.chat_template, limit_s=config.template_limit_s)
        closing.callback(program.close)
    template = ChatTemplate(data.chat_template, tokenizer, data.template_tokens, program=program)
    _warn_of_rewrites(template, checkpoint.name)
    model, close = _model(checkpoint, config, device)
    closing.callback(close)
    kv_dtype, sealed_dtype = _kv_dtypes(config, model)
    numbers = model.config
    shape = PoolShape(
        num_layers=len(numbers.layers),
        num_pages=1,
        page_tokens=config.page_tokens,
        kv_heads=numbers.kv_heads,
        head_dim=numbers.head_dim,
    )
    exact_bytes = shape.bytes_per_token(kv_dtype)
    limits = resolve_limits(
        config,
        model_context_tokens=numbers.context,
        bytes_per_token=-(-shape.sealed_page_bytes // config.page_tokens) if sealed_dtype else exact_bytes,
        available_bytes=available_bytes(device),
        total_bytes=gpu_properties(device).total_bytes if device.type == "cuda" else None,
        tail_bytes_per_token=exact_bytes if sealed_dtype else 0,
    )
    pool = KVPool(
        replace(shape, num_pages=limits.num_pages, num_tail_pages=limits.num_tail_pages),
        dtype=kv_dtype,
        sealed_dtype=sealed_dtype,
        device=device,
        has_scratch=device.type == "cuda",
    )
    return EngineParts(
        name=checkpoint.name,
        runner=_runner(model, pool, tokenizer, limits, config),
        limits=limits,
        tokenizer=tokenizer,
        template=template,
        close=closing.close,
        summary=(
            f"{checkpoint.name} ({numbers.architecture}) on {type(model).__name__}, {_in_words(device)}: context "
            f"{limits.context_tokens} tokens, max_tokens up to what the context leaves, KV pool {limits.num_pages} "
            f"pages of {limits.page_tokens} tokens in {_dtypes_in_words(pool)} (up to {pool.num_bytes >> 20} MiB)"
        ),
    )


def sampled_tokens(tokenizer: Tokenizer, vocabulary_tokens: int) -> int:
    """How many logits stand for a token: columns behind the last text or special token are padding."""
    vocabulary = tokenizer.vocabulary()
    last = max(
        [token for token, text in enumerate(vocabulary.tokens) if text is not None]
        + [*vocabulary.special_tokens.values(), *vocabulary.end_token_ids],
        default=0,
    )
    return min(last + 1, vocabulary_tokens)


def _runner(model: Model, pool: KVPool, tokenizer: Tokenizer, limits: Limits, config: EngineConfig) -> Runner:
    vocabulary_tokens = model.config.vocabulary
    num_sampled = sampled_tokens(tokenizer, vocabulary_tokens)
    if isinstance(model, NativeDecoder):
        return NativeRunner(model, pool, sampled_tokens=num_sampled)
    graphs = sharing = None
    if (capture := graph_capture(pool.device)) is not None:
        sharing = None if config.batch_invariant else PrefixSharing.of(model.config, pool)
        graphs = DecodeGraphs(
            model,
            pool,
            capture,
            vocabulary_tokens=vocabulary_tokens,
            max_sequences=limits.max_running,
            max_context_tokens=limits.context_tokens,
            rows_per_item=1 if sharing is None else sharing.rows_per_item,
            is_batch_invariant=config.batch_invariant,
        )
    runner = ModelRunner(
        model,
        pool,
        vocabulary_tokens=vocabulary_tokens,
        graphs=graphs,
        sharing=sharing,
        is_batch_invariant=config.batch_invariant,
    )
    if pool.device.type == "cuda":
        started = time.perf_counter()
        warm_up(runner, pool, graphs, limits, sampled_tokens=num_sampled)
        _log.info("kernels compiled and steps recorded in %.0f s", time.perf_counter() - started)
    return runner


def available_bytes(device: torch.device) -> int:
    """Memory that can be taken on `device` without taking it from others."""
    if device.type == "cuda":
        return free_gpu_bytes(device)
    return available_host_bytes()


def _device(config: EngineConfig) -> torch.device:
    try:
        return usable_device(config.device)
    except UnsupportedDeviceError as error:
        raise InvalidRequest(f"device: {error}", param="device") from error


def _in_words(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else f"{device} ({gpu_properties(device).name})"


def _warn_of_rewrites(template: ChatTemplate, name: str) -> None:
    """Say at load that a chat template makes cached turns useless, or does not work at all."""
    if not template.exists:
        return
    try:
        problem = template.append_only_problem
    except InvalidRequest as error:
        problem = str(error)
    if problem is not None:
        _log.warning("the chat template of %s is not append-only: %s", name, problem)


_SEALED_DTYPES: Mapping[KvCacheDtype, torch.dtype] = MappingProxyType(
    {"int8": torch.int8, "fp8_e4m3": torch.float8_e4m3fn}
)
_EXACT_DTYPES: Mapping[KvCacheDtype, torch.dtype] = MappingProxyType(
    {"float32": torch.float32, "bf16": torch.bfloat16, "int16": INTEGER_DTYPE}
)


def _kv_dtypes(config: EngineConfig, model: Model) -> tuple[torch.dtype, torch.dtype | None]:
    """The dtype of exact pages, and that of sealed ones where full pages are sealed."""
    fits_integers = isinstance(model, NativeDecoder | PackedDecoder) and config.page_tokens % TILE_TOKENS == 0
    if config.kv_cache_dtype == "int16" and not fits_integers:
        raise InvalidRequest(
            "kv_cache_dtype: int16 pages are those of the CPU kernels, and a page of theirs holds a multiple of "
            f"{TILE_TOKENS} tokens (page_tokens is {config.page_tokens}); choose auto, bf16 or float32",
            param="kv_cache_dtype",
        )
    automatic = INTEGER_DTYPE if fits_integers else torch.bfloat16
    if config.compute == "float32":
        automatic = torch.float32
    return _EXACT_DTYPES.get(config.kv_cache_dtype, automatic), _SEALED_DTYPES.get(config.kv_cache_dtype)


def _dtypes_in_words(pool: KVPool) -> str:
    exact = str(pool.dtype).removeprefix("torch.")
    if pool.sealed_dtype is None:
        return exact
    sealed = str(pool.sealed_dtype).removeprefix("torch.")
    return f"{sealed} and {pool.shape.num_tail_pages} tail pages in {exact}"


def _model(
    checkpoint: Checkpoint, config: EngineConfig, device: torch.device
) -> tuple[Model, Callable[[], None]]:
    """The model on the fastest path that this machine and `compute` allow, and how to close it."""
    if device.type == "cpu" and config.compute == "auto":
        try:
            native = NativeDecoder(checkpoint.config, checkpoint, threads=config.threads)
        except DecoderUnsupported as error:
            _log.warning("running %s on plain torch, which is slower: %s", checkpoint.name, error)
        except NativeUnavailable as error:
            if (packed := _packed_in_torch(checkpoint, config, error)) is not None:
                return packed, _nothing
        else:
            return native, native.close
    _use_threads(config)
    dtype = torch.float32 if config.compute == "float32" or device.type == "cpu" else torch.bfloat16
    return load_model(checkpoint, compute_dtype=dtype, device=device), _nothing


def _packed_in_torch(
    checkpoint: Checkpoint, config: EngineConfig, reason: NativeUnavailable
) -> PackedDecoder | None:
    """What the CPU kernels compute, without them; None for a model with a type that they lack."""
    try:
        packed = PackedDecoder(checkpoint.config, checkpoint)
    except (ValueError, UnsupportedModel) as error:
        _log.warning("running %s on plain torch, in float32: %s, and %s", checkpoint.name, reason, error)
        return None
    _log.warning("running %s in plain torch, by the same definition but slowly: %s", checkpoint.name, reason)
    _use_threads(config)
    return packed


def _use_threads(config: EngineConfig) -> None:
    if config.threads is not None:
        torch.set_num_threads(config.threads)
