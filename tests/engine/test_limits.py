"""Automatic settings: what the model and the machine allow."""

from __future__ import annotations

import pytest
import torch
from scripted_engine import saying, scripted_engine

from sgrt.config import EngineConfig, Limits, resolve_limits
from sgrt.engine.engine import Engine
from sgrt.errors import ContextOverflow, InvalidRequest
from sgrt_frontend.call import Call, SamplingParams


def limits(config: EngineConfig, *, available_bytes: int = 1 << 34) -> Limits:
    return resolve_limits(
        config, model_context_tokens=8192, bytes_per_token=23_040, available_bytes=available_bytes
    )


def test_the_context_is_the_models_unless_asked_for_less() -> None:
    assert limits(EngineConfig()).context_tokens == 8192
    assert limits(EngineConfig(context_tokens=100)).context_tokens == 100
    with pytest.raises(InvalidRequest, match="9000 is more than the model's context of 8192"):
        limits(EngineConfig(context_tokens=9000))


def test_the_pool_takes_its_share_of_the_memory_and_no_more_than_is_of_use() -> None:
    assert limits(EngineConfig(), available_bytes=1 << 30).pool_tokens == pytest.approx(
        0.4 * (1 << 30) / 23_040, abs=32
    )
    assert limits(EngineConfig()).pool_tokens == 131_072
    assert limits(EngineConfig(context_tokens=64, max_running=2)).pool_tokens == 128
    assert limits(EngineConfig(num_pages=7)).pool_tokens == 7 * 32


@pytest.mark.parametrize(("asked", "fraction"), [(None, 0.9), (0.5, 0.5)])
def test_on_a_gpu_weights_and_pool_together_take_the_fraction_of_all_memory(
    asked: float | None, fraction: float
) -> None:
    total, weights = 80 << 30, 16 << 30
    found = resolve_limits(
        EngineConfig(device="cuda", memory_fraction=asked, max_running=256, step_tokens=2048),
        model_context_tokens=131_072,
        bytes_per_token=131_072,
        available_bytes=total - weights,
        total_bytes=total,
    )
    left = total - weights - found.pool_tokens * 131_072
    assert left == pytest.approx((1 - fraction) * total, abs=32 * 131_072)


def test_a_gpu_that_others_have_filled_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="the pool gets 0, which holds no page"):
        resolve_limits(
            EngineConfig(device="cuda"),
            model_context_tokens=8192,
            bytes_per_token=23_040,
            available_bytes=1 << 30,
            total_bytes=80 << 30,
        )


def test_the_pool_holds_the_whole_context_where_pages_do_not_divide_it() -> None:
    assert limits(EngineConfig(context_tokens=1000, max_running=1)).num_pages == 32
    assert limits(EngineConfig(context_tokens=100, max_running=3)).num_pages == 3 * 4
    assert limits(EngineConfig(context_tokens=1000, max_running=1)).request_tokens == 1000
    assert limits(EngineConfig(context_tokens=1000, num_pages=2)).request_tokens == 65


def test_too_little_memory_for_one_page_is_said() -> None:
    with pytest.raises(InvalidRequest, match="holds no page of 32 tokens"):
        limits(EngineConfig(), available_bytes=1 << 20)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "contxt",
            r"contxt: an engine has no such setting; did you mean context_tokens\?.* Known: compute, ",
        ),
        ("context_token", "did you mean context_tokens"),
        ("max_runing", "did you mean max_running"),
        ("zzz", r"zzz: an engine has no such setting\. Known: compute, kv_cache_dtype"),
    ],
)
def test_an_unknown_setting_is_refused_with_those_that_are_known(name: str, message: str) -> None:
    settings: dict[str, object] = {name: 1}
    with pytest.raises(InvalidRequest, match=message) as caught:
        Engine("nowhere", **settings)  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.param == name


def test_a_context_is_advised_to_be_raised_only_where_it_can_be() -> None:
    call = Call(prompt=(5,) * 70, sampling=SamplingParams(max_tokens=1))
    own = scripted_engine(saying("x"), context_tokens=64)
    lowered = scripted_engine(saying("x"), context_tokens=128, settings={"context_tokens": 64})
    for engine, advice in (
        (own, r"of 64 tokens; shorten the prompt or lower max_tokens$"),
        (lowered, r"or raise context_tokens \(to 128 at most\)$"),
    ):
        with engine, pytest.raises(ContextOverflow, match=advice):
            engine.complete(call)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_refused_before_a_model_is_looked_for() -> None:
    with pytest.raises(
        InvalidRequest, match=r"device: 'cuda' is not there.*finds no GPU.*use 'cpu'"
    ) as raised:
        Engine("a model that is not there", device="cuda")
    assert raised.value.param == "device"
