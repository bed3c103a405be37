"""Runs a model on sequences the way an engine does, with nothing but pages and batches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor
from unwritten_pages import unwritten_layer

from sgrt.model.batch import Batch
from sgrt.model.model import Model
from sgrt_kernels.integer_pages import TILE_TOKENS
from sgrt_kernels.layout import INTEGER_DTYPE, PageSeals, PageShape, sealed_pages


class PagedHarness:
    """A pool of pages and the sequences in it. Pages are handed out in a scattered order, filled with NaN first."""

    def __init__(
        self,
        model: Model,
        *,
        pages: int,
        page_tokens: int | None = None,
        dtype: torch.dtype = torch.float32,
        sealed_dtype: torch.dtype | None = None,
    ) -> None:
        """Pages hold four tokens, of integers sixteen, unless `page_tokens` says otherwise. With a `sealed_dtype` full pages are sealed; exact and sealed page of the same tokens have the same number."""
        if page_tokens is None:
            page_tokens = TILE_TOKENS if dtype == INTEGER_DTYPE else 4
        self._model = model
        self._sealed_dtype = sealed_dtype
        config = model.config
        shape = PageShape(page_tokens=page_tokens, kv_heads=config.kv_heads, head_dim=config.head_dim)
        self._layers = tuple(
            unwritten_layer(
                pages,
                shape,
                dtype,
                None
                if sealed_dtype is None
                else sealed_pages(pages, shape, dtype=sealed_dtype, device="cpu"),
            )
            for _ in config.layers
        )
        self._page_tokens = page_tokens
        self._free = [(index * 7 + 3) % pages for index in range(pages)] if pages % 7 else list(range(pages))
        self._pages: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}

    def step(self, chunks: Sequence[tuple[int, Sequence[int]]]) -> list[Tensor]:
        """Append each chunk to its sequence (named by a number); logits of every position, [tokens, vocabulary] each."""
        starts, tokens, positions, slots = [0], list[int](), list[int](), list[int]()
        first_pages = [self._lengths.get(sequence, 0) // self._page_tokens for sequence, _ in chunks]
        for sequence, chunk in chunks:
            first = self._lengths.get(sequence, 0)
            self._lengths[sequence] = first + len(chunk)
            tokens += list(chunk)
            positions += range(first, first + len(chunk))
            slots += [self._slot(sequence, position) for position in range(first, first + len(chunk))]
            starts.append(len(tokens))
        tables = [self._pages[sequence] for sequence, _ in chunks]
        width = max(len(table) for table in tables)
        batch = Batch(
            token_ids=torch.tensor(tokens),
            positions=torch.tensor(positions),
            slots=torch.tensor(slots),
            query_starts=torch.tensor(starts, dtype=torch.int32),
            context_lengths=torch.tensor(
                [self._lengths[sequence] for sequence, _ in chunks], dtype=torch.int32
            ),
            page_table=torch.tensor(
                [table + [0] * (width - len(table)) for table in tables], dtype=torch.int32
            ),
            logit_rows=torch.arange(len(tokens)),
            layers=self._layers,
            seals=None if self._sealed_dtype is None else self._seals([s for s, _ in chunks], first_pages),
        )
        logits = self._model.forward(batch)
        return [logits[start:end] for start, end in itertools.pairwise(starts)]

    def _seals(self, sequences: Sequence[int], first_pages: Sequence[int]) -> PageSeals:
        own = [self._pages[s][first:] for s, first in zip(sequences, first_pages, strict=True)]
        filled = [
            page
            for s, pages, first in zip(sequences, own, first_pages, strict=True)
            for page in pages[: self._lengths[s] // self._page_tokens - first]
        ]
        width = max(len(pages) for pages in own)
        return PageSeals(
            sources=torch.tensor(filled, dtype=torch.int64),
            targets=torch.tensor(filled, dtype=torch.int64),
            own_pages=torch.tensor([pages + [0] * (width - len(pages)) for pages in own], dtype=torch.int32),
        )

    def whole(self, sequence: int, tokens: Sequence[int]) -> Tensor:
        """Logits of every position of a new sequence computed in one chunk."""
        return self.step([(sequence, tokens)])[0]

    def in_any_chunks(self, data: st.DataObject, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """Logits of every position of each text, computed in drawn chunks: of some of the texts at a time."""
        done = [0] * len(texts)
        parts: list[list[Tensor]] = [[] for _ in texts]
        while waiting := [index for index, text in enumerate(texts) if done[index] < len(text)]:
            chosen = data.draw(st.lists(st.sampled_from(waiting), min_size=1, unique=True))
            sizes = [data.draw(st.integers(1, min(50, len(texts[index]) - done[index]))) for index in chosen]
            chunks = [
                (index, texts[index][done[index] : done[index] + size])
                for index, size in zip(chosen, sizes, strict=True)
            ]
            for index, logits in zip(chosen, self.step(chunks), strict=True):
                parts[index].append(logits)
                done[index] += logits.shape[0]
        return [torch.cat(part) for part in parts]

    def greedy(self, sequence: int, prompt: Sequence[int], count: int) -> list[int]:
        """`count` greedy tokens after `prompt`."""
        logits = self.step([(sequence, prompt)])[0][-1]
        output: list[int] = []
        for _ in range(count):
            output.append(int(logits.argmax()))
            logits = self.step([(sequence, output[-1:])])[0][-1]
        return output

    def _slot(self, sequence: int, position: int) -> int:
        pages = self._pages.setdefault(sequence, [])
        if position // self._page_tokens == len(pages):
            pages.append(self._free.pop())
        return pages[position // self._page_tokens] * self._page_tokens + position % self._page_tokens
