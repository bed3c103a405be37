"""The tensors of one forward pass. Nothing else is needed to run a model: there is no step context."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sgrt_kernels.layout import PagedLayer, PageSeals


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A ragged batch of sequence chunks.

    Sequence `i` contributes the rows `query_starts[i]:query_starts[i + 1]`: the last
    `query_starts[i + 1] - query_starts[i]` of its `context_lengths[i]` tokens, in order.

        cached by earlier steps        this chunk
        [ 0 ........................ | .......... ) context_lengths[i]
    """

    token_ids: Tensor  # [tokens] int64
    positions: Tensor  # [tokens] int64
    slots: Tensor  # [tokens] int64, where each token's K and V are written: page * page_tokens + offset
    query_starts: Tensor  # [sequences + 1] int32
    context_lengths: Tensor  # [sequences] int32, this chunk included
    page_table: Tensor  # [sequences, max_pages] int32; entries past a sequence's last page are 0
    logit_rows: Tensor  # [rows] int64, the token rows whose logits are wanted
    layers: tuple[PagedLayer, ...]  # one per model layer
    # Where the layers have sealed pages: `page_table` names sealed pages, `slots` exact ones, and each layer
    # writes its tokens, seals `seals.sources` into `seals.targets` (page_seal), then attends (sealed_attention).
    seals: PageSeals | None = None
    num_single: int = 0  # so many of the first sequences have one row: a GPU decodes them apart from chunks
    is_batch_invariant: bool = (
        False  # a GPU's sums are cut alike whatever is in the batch; a CPU's always are
    )
