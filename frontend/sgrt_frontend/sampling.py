"""Sampling parameters as a program writes them: keyword arguments, merged and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from sgrt_frontend.call import SamplingParams
from sgrt_frontend.errors import InvalidRequest


class SamplingOptions(TypedDict, total=False):
    """The keyword arguments of `gen` that say how tokens are drawn; see `SamplingParams`.

    `stop` may be one string; `logit_bias` maps token ids to biases.
    """

    max_tokens: int | None
    min_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    seed: int | None
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    include_stop: bool
    ignore_eos: bool
    logprobs: int | None


def as_texts(texts: str | Sequence[str]) -> tuple[str, ...]:
    """One string or several, as a tuple.

    Raises:
        InvalidRequest: it is neither.
    """
    if isinstance(texts, str):
        return (texts,)
    if isinstance(texts, Iterable):
        return tuple(texts)
    raise InvalidRequest(f"stop: must be a text or several, not {texts!r}", param="stop")


def sampling_params(*layers: SamplingOptions, n: int = 1) -> SamplingParams:
    """Merge layers, later ones first in rank, into checked parameters.

    Raises:
        InvalidRequest: a value is out of range; the message names it.
    """
    merged: SamplingOptions = {}
    for layer in layers:
        merged.update(layer)
    return SamplingParams(
        max_tokens=merged.get("max_tokens"),
        min_tokens=merged.get("min_tokens", 0),
        temperature=merged.get("temperature", 0.0),
        top_k=merged.get("top_k", 0),
        top_p=merged.get("top_p", 1.0),
        min_p=merged.get("min_p", 0.0),
        repetition_penalty=merged.get("repetition_penalty", 1.0),
        presence_penalty=merged.get("presence_penalty", 0.0),
        frequency_penalty=merged.get("frequency_penalty", 0.0),
        logit_bias=tuple(sorted(merged.get("logit_bias", {}).items())),
        seed=merged.get("seed"),
        n=n,
        stop=as_texts(merged.get("stop", ())),
        stop_token_ids=tuple(merged.get("stop_token_ids", ())),
        include_stop=merged.get("include_stop", False),
        ignore_eos=merged.get("ignore_eos", False),
        logprobs=merged.get("logprobs"),
    )
