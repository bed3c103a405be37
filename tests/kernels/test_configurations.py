"""Configurations of the attention kernels: defaults, splits, the table and the search that writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sgrt_kernels.configurations import (
    BATCH_INVARIANT_SPLITS,
    MAX_SPLITS,
    AttentionConfig,
    ConfigKey,
    attention_config,
    default_config,
    read_table,
    split_count,
    write_table,
)
from sgrt_kernels.tune import decode_candidates, extend_candidates, fastest

KEY = ConfigKey(arch=90, head_dim=128, group=4, page=32, dtype="float8_e4m3fn")


@given(programs=st.integers(1, 5000), context=st.integers(1, 200_000))
def test_a_context_is_cut_into_a_power_of_two_of_useful_parts(programs: int, context: int) -> None:
    config = AttentionConfig()
    splits = split_count(config, programs, context)
    assert 1 <= splits <= MAX_SPLITS
    assert splits & (splits - 1) == 0
    assert splits == 1 or programs < config.target_programs
    assert splits == 1 or (splits // 2) * config.decode_tokens * config.decode_slots < context


def test_the_batch_invariant_mode_always_cuts_alike() -> None:
    config = AttentionConfig(is_batch_invariant=True)
    counts = {split_count(config, programs, 4096) for programs in (1, 8, 64, 4096)}
    assert counts == {BATCH_INVARIANT_SPLITS}


def test_a_table_reads_as_it_was_written_one_entry_a_line(tmp_path: Path) -> None:
    other = ConfigKey(arch=80, head_dim=64, group=1, page=16, dtype="bfloat16")
    configs = {KEY: AttentionConfig(decode_slots=2, decode_warps=2), other: AttentionConfig(extend_rows=64)}
    write_table(configs, tmp_path / "table.json")
    assert read_table(tmp_path / "table.json") == configs
    lines = (tmp_path / "table.json").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    assert '"arch": 80' in lines[1]


def test_no_table_is_an_empty_one(tmp_path: Path) -> None:
    assert read_table(tmp_path / "absent.json") == {}


def test_interpreted_kernels_have_small_tiles() -> None:
    config = attention_config(torch.device("cpu"), head_dim=128, group=4, page=32, dtype=torch.bfloat16)
    assert config.extend_rows <= 32


def test_wide_heads_spread_over_more_warps() -> None:
    assert (
        default_config(90, 256, is_sealed=False).decode_warps
        > default_config(90, 128, is_sealed=False).decode_warps
    )


def test_no_block_of_a_candidate_is_longer_than_a_page() -> None:
    assert all(config.decode_tokens <= 16 for config in decode_candidates(16, AttentionConfig()))
    assert len(set(decode_candidates(32, AttentionConfig()))) > 10
    assert len(set(extend_candidates(AttentionConfig()))) > 10


def timed_by(seconds: Callable[[AttentionConfig], float]) -> Callable[[Callable[[], object]], float]:
    """A timer that asks the candidate itself."""

    def timer(run: Callable[[], object]) -> float:
        config = run()
        assert isinstance(config, AttentionConfig)
        return seconds(config)

    return timer


def test_the_fastest_candidate_wins_and_one_without_room_is_passed_over() -> None:
    def seconds(config: AttentionConfig) -> float:
        if config.decode_slots == 8:
            raise RuntimeError("out of resource: shared memory")
        return 1.0 / config.decode_slots

    best, time = fastest(decode_candidates(32, AttentionConfig()), lambda config: config, timed_by(seconds))
    assert best.decode_slots == 4
    assert time == 0.25


def test_other_errors_of_a_candidate_are_not_hidden() -> None:
    def seconds(config: AttentionConfig) -> float:
        raise RuntimeError("illegal memory access")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        fastest([AttentionConfig()], lambda config: config, timed_by(seconds))


def test_a_gpu_on_which_nothing_fits_is_an_error() -> None:
    def seconds(config: AttentionConfig) -> float:
        raise RuntimeError("out of resource: registers")

    with pytest.raises(RuntimeError, match="no candidate fits"):
        fastest([AttentionConfig()], lambda config: config, timed_by(seconds))
