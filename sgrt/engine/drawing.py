"""From rows of logits to drawn tokens and scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sgrt.engine.generation import Drawn, Generation
from sgrt.engine.guide import TokenMasks, is_single
from sgrt.engine.sampling import DrawnRow, build_rows
from sgrt.engine.scheduler import Work
from sgrt.engine.scoring import Scoring
from sgrt.engine.sequence import Sequence
from sgrt_frontend.call import Origin, TokenInfo, TokenLogprob
from sgrt_kernels.device import upload
from sgrt_kernels.ops.masked_sample import SamplingRows, masked_sample, token_logprobs

Member = Generation | Scoring
_GREEDY = SamplingRows()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Draws the tokens of one step. Only the first `sampled_tokens` logits stand for tokens."""

    sampled_tokens: int
    mask_words: int

    def draw(
        self,
        works: Iterable[Work],
        members: Mapping[Sequence, Member],
        logits: Tensor,
        masks: Mapping[Sequence, TokenMasks],
        largest: Callable[[], list[int]] | None = None,
    ) -> dict[Sequence, list[Drawn]]:
        """Draw a token for every row of every generation, and score what is to be scored.

        `logits` [rows, vocabulary] come in the order of `works`. A generation without masks is free.
        `largest` gives the tokens of the largest logits where the runner knows them.
        """
        sequences = None if masks else _plain_sequences(works, members)
        if sequences is not None and largest is not None:
            return _plain(sequences, largest())
        if logits.shape[-1] > self.sampled_tokens:
            logits = logits[:, : self.sampled_tokens]
        if sequences is not None:
            return _plain(sequences, masked_sample(logits, _GREEDY).tolist() if sequences else [])
        rows: list[DrawnRow] = []
        places: list[int] = []
        first = 0
        for work in works:
            member = members.get(work.sequence)
            if isinstance(member, Scoring) and work.num_rows:
                self._score(member, work, logits[first : first + work.num_rows])
            elif isinstance(member, Generation) and work.num_rows:
                new = self._rows(member, masks.get(work.sequence))
                rows += new
                places += [first + row.num_drafts for row in new]
            first += work.num_rows
        if not rows:
            return {}
        if places != list(range(len(logits))):
            logits = logits[upload(torch.tensor(places), logits.device)]
        tokens = masked_sample(logits, build_rows(rows, self.mask_words, logits.device))
        return self._drawn(rows, tokens, self._infos(rows, logits, tokens))

    def _rows(self, generation: Generation, masks: TokenMasks | None) -> list[DrawnRow]:
        """A row per mask; where the budget narrowed it, one more that is drawn without a budget."""
        if masks is None:
            return [DrawnRow(generation=generation, num_drafts=0)]
        rows = [
            DrawnRow(generation=generation, num_drafts=place, mask=mask) for place, mask in enumerate(masks)
        ]
        if generation.guide is not None:
            rows += [
                DrawnRow(generation=generation, num_drafts=place, mask=mask, is_shadow=True)
                for place, mask in generation.guide.narrowed.items()
                if place < len(masks)
            ]
        return rows

    def _score(self, scoring: Scoring, work: Work, logits: Tensor) -> None:
        """Every wanted token of every row; a row's own sum is taken once, whatever is wanted of it."""
        end = work.start + work.num_tokens
        wanted = scoring.wanted(work.num_rows, end)
        nothing = torch.zeros(len(wanted), dtype=torch.int64, device=logits.device)
        _, ids, values = token_logprobs(logits, nothing, max(1, scoring.num_top))
        best = ids[:, 0].clamp(min=0)  # a row without a token has no numbers either
        sums = logits.gather(-1, best[:, None]).squeeze(-1) - values[:, 0]
        counts = torch.tensor([len(tokens) for tokens in wanted], device=logits.device)
        rows = torch.repeat_interleave(torch.arange(len(wanted), device=logits.device), counts)
        tokens = torch.tensor(
            [token for row in wanted for token in row], dtype=torch.int64, device=logits.device
        )
        logprobs = iter((logits[rows, tokens] - sums[rows]).tolist())
        top = (
            [_best(*row) for row in zip(ids.tolist(), values.tolist(), strict=True)]
            if scoring.num_top
            else []
        )
        scoring.take(end, [tuple(next(logprobs) for _ in row) for row in wanted], top)

    def _infos(self, rows: list[DrawnRow], logits: Tensor, tokens: Tensor) -> dict[int, TokenInfo]:
        """Log-probabilities, by row, for the rows that want them."""
        wanted = [
            place
            for place, row in enumerate(rows)
            if row.generation.sampling.logprobs is not None and not row.is_shadow
        ]
        if not wanted:
            return {}
        top = max(rows[place].generation.sampling.logprobs or 0 for place in wanted)
        taken = tokens[wanted].clamp(min=0)  # a row without a token ends its job
        chosen, ids, values = token_logprobs(logits[wanted], taken, top)
        infos = {}
        for place, token, own, top_ids, top_values in zip(
            wanted, tokens[wanted].tolist(), chosen.tolist(), ids.tolist(), values.tolist(), strict=True
        ):
            count = rows[place].generation.sampling.logprobs or 0
            infos[place] = TokenInfo(
                chosen=TokenLogprob(token_id=token, logprob=own),
                top=_best(top_ids[:count], top_values[:count]),
            )
        return infos

    def _drawn(
        self, rows: list[DrawnRow], tokens: Tensor, infos: dict[int, TokenInfo]
    ) -> dict[Sequence, list[Drawn]]:
        drawn: dict[Sequence, list[Drawn]] = {}
        for place, (row, token) in enumerate(zip(rows, tokens.tolist(), strict=True)):
            mine = drawn.setdefault(row.generation.sequence, [])
            if row.is_shadow:
                mine[row.num_drafts] = replace(
                    mine[row.num_drafts], is_narrowed=mine[row.num_drafts].token != token
                )
            else:
                mine.append(Drawn(token=token, origin=_origin(row, token), info=infos.get(place)))
        return drawn


def _best(ids: list[int], values: list[float]) -> tuple[TokenLogprob, ...]:
    """The best tokens of a row; fewer where fewer are possible at all."""
    pairs = zip(ids, values, strict=True)
    return tuple(TokenLogprob(token_id=token, logprob=value) for token, value in pairs if token >= 0)


def _plain_sequences(works: Iterable[Work], members: Mapping[Sequence, Member]) -> list[Sequence] | None:
    """The sequences of all rows, if each of them just takes the largest logit."""
    sequences = []
    for work in works:
        if work.num_rows == 0:
            continue
        member = members.get(work.sequence)
        if not isinstance(member, Generation) or not member.is_plain:
            return None
        sequences.append(work.sequence)
    return sequences


def _plain(sequences: list[Sequence], tokens: list[int]) -> dict[Sequence, list[Drawn]]:
    return {
        sequence: [Drawn(token=token, origin=Origin.FREE)]
        for sequence, token in zip(sequences, tokens, strict=True)
    }


def _origin(row: DrawnRow, token: int) -> Origin:
    guide = row.generation.guide
    if guide is None or row.mask is None or token < 0:
        return Origin.FREE
    is_forced = guide.is_forced(row.num_drafts, token) or is_single(row.mask)
    return Origin.FORCED if is_forced else Origin.CONSTRAINED
