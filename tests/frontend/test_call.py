"""Calls and sampling parameters: what is refused as written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sgrt.llm import SamplingParams as ForLLM
from sgrt_frontend.call import Call, SamplingParams
from sgrt_frontend.errors import InvalidRequest
from sgrt_grammars.constraint import Regex


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("top_k", 2**63),
        ("top_k", 2**31),
        ("top_k", -1),
        ("top_k", 1.5),
        ("max_tokens", 7.5),
        ("min_tokens", "3"),
        ("min_tokens", None),
        ("seed", 1.0),
        ("n", 1.0),
        ("logprobs", 2.5),
        ("temperature", "hot"),
        ("temperature", float("nan")),
        ("presence_penalty", float("nan")),
        ("stop", (5,)),
        ("stop", "end"),
        ("stop_token_ids", (1.5,)),
        ("logit_bias", ((1.5, 1.0),)),
        ("logit_bias", ((1, float("nan")),)),
        ("logit_bias", (3,)),
    ],
)
def test_wrong_sampling_parameters_are_refused_and_name_the_field(param: str, value: object) -> None:
    with pytest.raises(InvalidRequest, match=f"^{param}: ") as refused:
        SamplingParams(**{param: value})  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("prompt", (1.0, 2.0)),
        ("prompt", "text"),
        ("prompt", (1, None)),
        ("priority", 10**400),
        ("priority", 0.5),
        ("deadline_s", "soon"),
        ("cache_salt", ["a"]),
        ("sampling", {"max_tokens": 3}),
        ("sampling", None),
        ("sampling", ForLLM()),
        ("constraint", "a+"),
        ("constraint", {"type": "object"}),
        ("constraint", Regex),
        ("plan", {"shares": ()}),
    ],
)
def test_wrong_calls_are_refused_and_name_the_field(param: str, value: object) -> None:
    with pytest.raises(InvalidRequest, match=f"^{param}: ") as refused:
        Call(**{"prompt": (1,), param: value})  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.param == param


def test_sampling_of_another_interface_is_refused_by_its_full_name() -> None:
    with pytest.raises(InvalidRequest, match=r"sgrt_frontend\.call\.SamplingParams, not sgrt\.llm\."):
        Call(prompt=(1,), sampling=ForLLM())  # type: ignore[arg-type]  # wrong on purpose


def test_numbers_of_numpy_are_numbers() -> None:
    sampling = SamplingParams(max_tokens=np.int64(3), temperature=np.float32(0.5))  # type: ignore[arg-type]
    prompt: tuple[Any, ...] = tuple(np.arange(3))
    assert Call(prompt=prompt, sampling=sampling).prompt == (0, 1, 2)
