"""The search for configurations runs every kind of attention that it times."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from sgrt_kernels.configurations import AttentionConfig, ConfigKey
from sgrt_kernels.tune import Load, decode_candidates, extend_candidates, tuned


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_decode_extend_and_trees_are_run_and_the_fastest_of_each_is_taken(
    dtype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = 0

    def timer(run: Callable[[], object]) -> float:
        """Of each kind the first candidate is run; the fourth is said to be fastest."""
        nonlocal calls
        calls += 1
        if calls in first_calls:
            result = run()
            assert isinstance(result, torch.Tensor)
            assert bool(result.isfinite().all())
        return 1e-6 if calls in {call + 3 for call in first_calls} else 1.0

    decodes = len(list(decode_candidates(32, AttentionConfig())))
    extends = len(list(extend_candidates(AttentionConfig())))
    first_calls = {1, 1 + decodes, 1 + decodes + extends}
    key = ConfigKey(arch=90, head_dim=32, group=2, page=32, dtype=dtype)
    load = Load(kv_heads=1, sequences=3, context=70, chunk=20)
    config = tuned(key, torch.device("cpu"), timer, load)
    assert (config.decode_tokens, config.decode_slots, config.decode_warps, config.decode_stages) == (
        16,
        1,
        2,
        5,
    )
    assert (config.extend_rows, config.extend_tokens, config.extend_warps, config.extend_stages) == (
        64,
        32,
        8,
        2,
    )
    assert (config.tree_rows, config.tree_tokens, config.tree_warps, config.tree_stages) == (64, 32, 8, 2)
    assert "decode 1 us, extend 1 us, tree 1 us" in capsys.readouterr().out
