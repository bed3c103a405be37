"""Steps that only decode, recorded and replayed: padding changes nothing, and nothing is recorded twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from random_models import random_model
from torch import Tensor

from sgrt.cache.pool import KVPool, PoolShape
from sgrt.engine.decode_graphs import DecodeGraphs
from sgrt.engine.plan import PageCopy, Plan, Span
from sgrt.engine.prefix_sharing import PrefixSharing
from sgrt.engine.runner import ModelRunner
from sgrt.model.decoder import Decoder
from sgrt_kernels.buckets import bucket, power_bucket, previous_bucket

PAGE = 4
PAGES = 60
TAILS = 40
FAMILIES = ("llama", "qwen3", "gemma3")
SHARING = PrefixSharing(page_tokens=PAGE, rows_per_item=2, fewest_pages_saved=1)


@dataclass(slots=True)
class CallingCapture:
    """Records nothing: what is replayed is called, and reads the memory that a recorded graph would."""

    captures: int = 0
    replays: int = 0

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        self.captures += 1
        run()

        def replay() -> None:
            self.replays += 1
            run()

        return replay


class Texts:
    """Sequences that grow step by step over pages handed out in a scattered order, in two pools alike."""

    def __init__(self, model: Decoder, *, sealed: torch.dtype | None, max_sequences: int = 8) -> None:
        config = model.config
        shape = PoolShape(
            num_layers=len(config.layers),
            num_pages=PAGES,
            page_tokens=PAGE,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            num_tail_pages=TAILS if sealed else 0,
        )
        self.plain, self.padded = (
            KVPool(shape, dtype=torch.float32, sealed_dtype=sealed, has_scratch=scratch)
            for scratch in (False, True)
        )
        self.capture = CallingCapture()
        self.graphs = DecodeGraphs(
            model,
            self.padded,
            self.capture,
            vocabulary_tokens=config.vocabulary,
            max_sequences=max_sequences,
            max_context_tokens=200,
            rows_per_item=SHARING.rows_per_item,
        )
        self._sealed = sealed is not None
        self.runners = (
            ModelRunner(model, self.plain, vocabulary_tokens=config.vocabulary),
            ModelRunner(
                model,
                self.padded,
                vocabulary_tokens=config.vocabulary,
                graphs=self.graphs,
                sharing=SHARING,
            ),
        )
        self._random = random.Random(0)
        self._free = list(range(PAGES))
        self._tails = list(range(PAGES, PAGES + TAILS))
        self._random.shuffle(self._free)
        self._random.shuffle(self._tails)
        self._lengths: dict[int, int] = {}
        self.pages: dict[int, list[int]] = {}
        self._tail: dict[int, int] = {}

    def step(self, chunks: dict[int, int], copies: tuple[PageCopy, ...] = ()) -> tuple[Tensor, Tensor]:
        """Let each sequence grow by so many random tokens; logits without and with graphs."""
        spans = tuple(self.span(sequence, count) for sequence, count in chunks.items())
        plan = Plan(spans=spans, copies=copies)
        plain, padded = (runner.run(plan).clone() for runner in self.runners)
        return plain, padded

    def span(self, sequence: int, count: int) -> Span:
        start = self._lengths.get(sequence, 0)
        end = self._lengths[sequence] = start + count
        pages = self.pages.setdefault(sequence, [])
        while len(pages) * PAGE < end:
            pages.append(self._free.pop())
        return Span(
            tokens=[self._random.randrange(50) for _ in range(count)],
            start=start,
            pages=list(pages),
            own_pages=self._own_pages(sequence, start, end) if self._sealed else [],
            logits_from=count - 1,
            prompt_tokens=start + count,
        )

    def fork(self, sequence: int, parent: int) -> None:
        """Let a new sequence start from the full pages of another."""
        full = self._lengths[parent] // PAGE
        self._lengths[sequence], self.pages[sequence] = full * PAGE, self.pages[parent][:full]

    def _own_pages(self, sequence: int, start: int, end: int) -> list[int]:
        count = (end - 1) // PAGE - start // PAGE + 1
        first = [self._tail.pop(sequence)] if sequence in self._tail else []
        own = first + [self._tails.pop(0) for _ in range(count - len(first))]
        self._tails += own[:-1]
        if end % PAGE:
            self._tail[sequence] = own[-1]
        else:
            self._tails.append(own[-1])
        return own


@pytest.mark.parametrize("sealed", [None, torch.int8, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_padded_steps_give_the_logits_of_plain_ones(family: str, sealed: torch.dtype | None) -> None:
    texts = Texts(random_model(family), sealed=sealed)
    texts.step({0: 7, 1: 1, 2: 12, 3: 3, 4: 4})
    for step in range(9):
        running = [sequence for sequence in range(5) if (step + sequence) % 4]
        plain, padded = texts.step(dict.fromkeys(running, 1))
        assert padded.shape == plain.shape
        assert torch.allclose(padded, plain, rtol=0, atol=2e-5)
    assert texts.capture.replays == 9


@pytest.mark.parametrize("sealed", [None, torch.int8], ids=str)
def test_padding_writes_to_scratch_pages_alone(sealed: torch.dtype | None) -> None:
    texts = Texts(random_model("llama"), sealed=sealed)
    texts.step({0: 5, 1: 2, 2: 7})
    for _ in range(6):
        texts.step({0: 1, 1: 1, 2: 1, 3: 1, 4: 1})  # runs as 6
    for plain, padded in zip(texts.plain.layers, texts.padded.layers, strict=True):
        pages = len(plain.keys)
        assert torch.allclose(padded.keys[:pages], plain.keys, atol=1e-5)
        assert torch.allclose(padded.values[:pages], plain.values, atol=1e-5)
        assert bool(padded.keys[pages:].any())
        if plain.sealed is not None and padded.sealed is not None:
            assert torch.equal(padded.sealed.keys[:PAGES], plain.sealed.keys)


def test_a_size_is_recorded_once_and_nothing_moves() -> None:
    texts = Texts(random_model("llama"), sealed=torch.int8)
    texts.step(dict.fromkeys(range(6), 3))
    seen = []
    for running in (3, 3, 5, 6, 3, 6):
        texts.step(dict.fromkeys(range(running), 1))
        seen.append(texts.graphs.num_graphs)
    assert seen == [1, 1, 2, 2, 2, 2]
    assert texts.capture.captures == 2
    assert texts.capture.replays == 6


def test_the_logits_of_all_sizes_lie_in_the_same_memory() -> None:
    model = random_model("llama")
    texts = Texts(model, sealed=None)
    texts.step(dict.fromkeys(range(4), 3))
    runner = texts.runners[1]
    addresses = set()
    for running in (1, 2, 4):
        spans = tuple(texts.span(sequence, 1) for sequence in range(running))
        addresses.add(runner.run(Plan(spans=spans)).data_ptr())
    assert len(addresses) == 1


def test_steps_that_compute_prompts_or_drafts_or_are_too_large_are_launched() -> None:
    texts = Texts(random_model("llama"), sealed=None, max_sequences=4)
    texts.step({0: 9, 1: 9})
    texts.step({0: 1, 1: 3})
    texts.step(dict.fromkeys(range(5), 1))
    assert texts.capture.captures == 0
    plain, padded = texts.step({0: 190})
    assert torch.allclose(plain, padded, atol=2e-5)
    texts.step({0: 1})
    assert texts.capture.captures == 1


@pytest.mark.parametrize("sealed", [None, torch.int8], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_shared_prefix_is_read_by_a_recorded_tree(family: str, sealed: torch.dtype | None) -> None:
    texts = Texts(random_model(family), sealed=sealed)
    texts.step({0: 21, 9: 3})
    for child in (1, 2, 3, 4):
        texts.fork(child, 0)
    texts.step({1: 2, 2: 5, 3: 1, 4: 9})
    for _ in range(5):
        plain, padded = texts.step(dict.fromkeys((0, 9, 1, 2, 3, 4), 1))
        assert torch.allclose(padded, plain, rtol=0, atol=2e-5)
    assert texts.capture.captures == 1
    plain, padded = texts.step({0: 1, 9: 1})  # nothing shared: another graph
    assert torch.allclose(padded, plain, rtol=0, atol=2e-5)
    assert texts.capture.captures == 2
    plain, padded = texts.step(
        {0: 1, 1: 3, 2: 1, 3: 1}
    )  # a mixed step is launched, its single rows over a tree
    assert torch.allclose(padded, plain, rtol=0, atol=2e-5)


def test_all_sizes_can_be_recorded_before_they_are_met() -> None:
    texts = Texts(random_model("llama"), sealed=torch.int8, max_sequences=4)
    texts.graphs.record_all()
    captures = texts.capture.captures
    assert (
        captures == texts.graphs.num_graphs == 3 * (4 + 3)
    )  # 16, 32, 64 pages; 1 to 4 rows; trees from 2 rows on
    texts.step({0: 21, 1: 2, 2: 6})
    texts.fork(3, 0)
    texts.step({3: 4})
    for running in ((0,), (0, 1), (0, 3), (0, 1, 2, 3)):
        plain, padded = texts.step(dict.fromkeys(running, 1))
        assert torch.allclose(padded, plain, rtol=0, atol=2e-5)
    assert texts.capture.captures == captures


def test_a_tree_is_planned_where_it_saves_enough() -> None:
    def spans(shared: int, sequences: int) -> list[Span]:
        return [
            Span(
                tokens=[1],
                start=PAGE * (shared + 1),
                pages=[*range(shared), 50 + row, 90 + row],
                logits_from=0,
                prompt_tokens=1,
            )
            for row in range(sequences)
        ]

    sharing = PrefixSharing(page_tokens=PAGE, rows_per_item=4, fewest_pages_saved=30)
    assert sharing.tree(spans(0, 8)) is None
    assert sharing.tree(spans(4, 8)) is None  # 4 pages, read by 2 items rather than by 8 rows
    planned = sharing.tree(spans(5, 8))
    assert planned is not None
    assert planned.pages_saved == 30


def test_what_is_worthwhile_follows_from_the_bytes_of_a_page() -> None:
    config = random_model("gemma3").config
    shape = PoolShape(num_layers=2, num_pages=4, page_tokens=32, kv_heads=8, head_dim=128)
    sharing = PrefixSharing.of(config, KVPool(shape, dtype=torch.bfloat16))
    assert sharing is not None
    assert sharing.fewest_pages_saved == (32 << 20) / (2 * 32 * 8 * 128 * 2)
    windowed = replace(config, layers=config.layers[:1])
    assert PrefixSharing.of(windowed, KVPool(shape, dtype=torch.bfloat16)) is None


def test_a_wider_context_is_another_size() -> None:
    texts = Texts(random_model("llama"), sealed=None)
    texts.step({0: 62, 1: 5})
    texts.step({0: 1, 1: 1})
    texts.step({0: 1, 1: 1})
    assert texts.graphs.num_graphs == 1
    plain, padded = texts.step({0: 1, 1: 1})
    assert texts.graphs.num_graphs == 2
    assert torch.allclose(plain, padded, atol=2e-5)


def test_pages_are_copied_before_a_recorded_step() -> None:
    texts = Texts(random_model("llama"), sealed=None)
    texts.step({0: 6, 1: 6})
    source, target = texts.pages[0][1], texts.pages[1][1]
    plain, padded = texts.step({0: 1, 1: 1}, (PageCopy(source=source, target=target, num_tokens=2),))
    assert torch.allclose(plain, padded, atol=2e-5)
    assert torch.equal(texts.padded.layers[0].keys[target, :2], texts.padded.layers[0].keys[source, :2])


def test_buckets_are_powers_of_two_and_steps_half_way() -> None:
    assert sorted({bucket(count) for count in range(1, 100)}) == [
        1,
        2,
        3,
        4,
        6,
        8,
        12,
        16,
        24,
        32,
        48,
        64,
        96,
        128,
    ]
    assert all(bucket(count) >= count for count in range(1, 500))
    sizes = sorted({bucket(count) for count in range(1, 500)})
    assert [previous_bucket(size) for size in sizes] == [0, *sizes[:-1]]
    assert [bucket(count, 16) for count in (0, 16, 17, 25)] == [16, 16, 24, 32]
    assert [power_bucket(count, 16) for count in (1, 16, 17, 33)] == [16, 16, 32, 64]
