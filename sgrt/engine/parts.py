"""What an engine is made of, and how it is put together from a model file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from sgrt.cache.pool import KVPool, PoolShape
from sgrt.checkpoint.checkpoint import Checkpoint
from sgrt.checkpoint.opening import open_checkpoint
from sgrt.config import EngineConfig, Limits, resolve_limits
from sgrt.engine.runner import ModelRunner, Runner
from sgrt.errors import InvalidRequest
from sgrt.model.model import Model
from sgrt.model.native_decoder import DecoderUnsupported, NativeDecoder
from sgrt.model.registry import load_model
from sgrt.tokenizer.chat_template import ChatTemplate
from sgrt.tokenizer.tokenizer import Tokenizer
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
    checkpoint = open_checkpoint(config.model)
    tokenizer = Tokenizer(checkpoint.tokenizer_data)
    data = checkpoint.tokenizer_data
    template = ChatTemplate(data.chat_template, tokenizer, data.template_tokens)
    _warn_of_rewrites(template, checkpoint.name)
    model, close = _model(checkpoint, config)
    kv_dtype = _kv_dtype(config)
    numbers = model.config
    shape = PoolShape(
        num_layers=len(numbers.layers),
        num_pages=1,
        page_tokens=config.page_tokens,
        kv_heads=numbers.kv_heads,
        head_dim=numbers.head_dim,
    )
    limits = resolve_limits(
        config,
        model_context_tokens=numbers.context,
        bytes_per_token=shape.bytes_per_token(kv_dtype),
        available_bytes=available_bytes(config.device),
    )
    pool = KVPool(
        PoolShape(
            num_layers=shape.num_layers,
            num_pages=limits.num_pages,
            page_tokens=shape.page_tokens,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
        ),
        dtype=kv_dtype,
        device=config.device,
    )
    mebibytes = limits.pool_tokens * shape.bytes_per_token(kv_dtype) >> 20
    return EngineParts(
        name=checkpoint.name,
        runner=ModelRunner(model, pool, vocabulary_tokens=numbers.vocabulary),
        limits=limits,
        tokenizer=tokenizer,
        template=template,
        close=close,
        summary=(
            f"{checkpoint.name} ({numbers.architecture}) on {type(model).__name__}, {config.device}: context "
            f"{limits.context_tokens} tokens, max_tokens up to what the context leaves, KV pool {limits.num_pages} "
            f"pages of {limits.page_tokens} tokens in {str(kv_dtype).removeprefix('torch.')} (up to {mebibytes} MiB)"
        ),
    )


def available_bytes(device: str) -> int:
    """Memory that can be taken on `device` without taking it from others."""
    if torch.device(device).type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except FileNotFoundError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


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


def _kv_dtype(config: EngineConfig) -> torch.dtype:
    if config.kv_cache_dtype == "auto":
        return torch.float32 if config.compute == "float32" else torch.bfloat16
    return torch.float32 if config.kv_cache_dtype == "float32" else torch.bfloat16


def _model(checkpoint: Checkpoint, config: EngineConfig) -> tuple[Model, Callable[[], None]]:
    """The model on the fastest path that this machine and `compute` allow, and how to close it."""
    device = torch.device(config.device)
    if device.type == "cpu" and config.compute == "auto":
        try:
            native = NativeDecoder(checkpoint.config, checkpoint, threads=config.threads)
        except (NativeUnavailable, DecoderUnsupported) as error:
            _log.warning("running %s on plain torch, which is slower: %s", checkpoint.name, error)
        else:
            return native, native.close
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    dtype = torch.float32 if config.compute == "float32" or device.type == "cpu" else torch.bfloat16
    return load_model(checkpoint, compute_dtype=dtype, device=device), _nothing
