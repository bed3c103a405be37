"""Masked sampling by the C twin of the reference: the same words of noise, sums in another order."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from sgrt_kernels.ops.masked_sample.rows import SamplingRows
from sgrt_native import NativeUnavailable, load_library

_pointer = ctypes.c_void_p
_long = ctypes.c_int64


class _Entries(ctypes.Structure):
    """`struct sparse_entries`."""

    _fields_ = (("count", _long), ("rows", _pointer), ("tokens", _pointer), ("values", _pointer))


class _Rows(ctypes.Structure):
    """`struct sample_rows`."""

    _fields_ = (
        ("logits", _pointer),
        ("stride", _long),
        ("rows", _long),
        ("vocabulary", _long),
        ("temperature", _pointer),
        ("top_k", _pointer),
        ("top_p", _pointer),
        ("min_p", _pointer),
        ("seeds", _pointer),
        ("positions", _pointer),
        ("masks", _pointer),
        ("mask_words", _long),
        ("history", _Entries),
        ("repetition", _pointer),
        ("presence", _pointer),
        ("frequency", _pointer),
        ("bias", _Entries),
        ("tokens", _pointer),
    )


@cache
def library() -> ctypes.CDLL:
    """The compiled sampler.

    Raises:
        NativeUnavailable: it cannot be built here.
    """
    loaded = load_library("masked_sample", [Path(__file__).with_name("native.c")])
    loaded.sgrt_masked_sample.restype = ctypes.c_int32
    loaded.sgrt_masked_sample.argtypes = [_pointer]
    loaded.sgrt_largest.restype = None
    loaded.sgrt_largest.argtypes = [_pointer, _long, _long, _long, _pointer]
    loaded.sgrt_token_logprobs.restype = ctypes.c_int32
    loaded.sgrt_token_logprobs.argtypes = [
        *(_pointer, _long, _long, _long, _pointer, _long),
        *(_pointer, _pointer, _pointer),
    ]
    return loaded


@cache
def is_available() -> bool:
    """Whether the library can be had."""
    try:
        library()
    except NativeUnavailable:
        return False
    return True


def masked_sample(logits: Tensor, rows: SamplingRows) -> Tensor:
    """The next token of every row; see the op. `logits` are float32 on the CPU."""
    if logits.stride(-1) != 1:
        logits = logits.contiguous()
    tokens = torch.empty(len(logits), dtype=torch.int64)
    if all(each is None for each in (rows.temperature, rows.masks, rows.history, rows.bias)):
        count, vocabulary = logits.shape
        library().sgrt_largest(logits.data_ptr(), logits.stride(0), count, vocabulary, tokens.data_ptr())
        return tokens
    arguments = _Rows(
        logits=logits.data_ptr(),
        stride=logits.stride(0),
        rows=len(logits),
        vocabulary=logits.shape[-1],
        temperature=_address(rows.temperature),
        top_k=_address(rows.top_k),
        top_p=_address(rows.top_p),
        min_p=_address(rows.min_p),
        seeds=_address(rows.seeds),
        positions=_address(rows.positions),
        masks=_address(rows.masks),
        mask_words=rows.masks.shape[-1] if rows.masks is not None else 0,
        tokens=tokens.data_ptr(),
    )
    if (history := rows.history) is not None:
        arguments.history = _entries(history.rows, history.tokens, history.output_counts)
        arguments.repetition = _address(history.repetition_penalty)
        arguments.presence = _address(history.presence_penalty)
        arguments.frequency = _address(history.frequency_penalty)
    if (bias := rows.bias) is not None:
        arguments.bias = _entries(bias.rows, bias.tokens, bias.values)
    _check(library().sgrt_masked_sample(ctypes.addressof(arguments)), logits)
    return tokens


def token_logprobs(logits: Tensor, tokens: Tensor, top: int) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of given tokens and of the most probable ones; see the op."""
    if logits.stride(-1) != 1:
        logits = logits.contiguous()
    count = len(logits)
    top = min(top, logits.shape[-1])
    chosen = torch.empty(count)
    ids = torch.empty((count, top), dtype=torch.int64)
    values = torch.empty((count, top))
    done = library().sgrt_token_logprobs(
        logits.data_ptr(),
        logits.stride(0),
        count,
        logits.shape[-1],
        tokens.data_ptr(),
        top,
        chosen.data_ptr(),
        ids.data_ptr(),
        values.data_ptr(),
    )
    _check(done, logits)
    return chosen, ids, values


def _check(outcome: int, logits: Tensor) -> None:
    rows, vocabulary = logits.shape
    if outcome == 0:
        raise MemoryError(f"no memory for a row of {vocabulary} logits")
    if outcome < 0:
        raise IndexError(
            f"rows out of order, masks too narrow, or a token outside logits of [{rows}, {vocabulary}]"
        )


def _entries(rows: Tensor, tokens: Tensor, values: Tensor) -> _Entries:
    return _Entries(count=len(rows), rows=rows.data_ptr(), tokens=tokens.data_ptr(), values=values.data_ptr())


def _address(tensor: Tensor | None) -> int | None:
    assert tensor is None or tensor.is_contiguous(), "parameters lie contiguous"
    return None if tensor is None else tensor.data_ptr()
