"""The tensors of one forward pass. Nothing else is needed to run a model: there is no step context."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from sgrt_kernels.layout import PagedLayer, PageSeals
from sgrt_kernels.ops.tree_attention import TreePlan


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
    page_table: Tensor  # [sequences, max_pages] int32; entries past a sequence's last page are not read
    logit_rows: Tensor  # [rows] int64, the token rows whose logits are wanted
    layers: tuple[PagedLayer, ...]  # one per model layer
    # Where the layers have sealed pages: `page_table` names sealed pages, `slots` exact ones, and each layer
    # writes its tokens, seals `seals.sources` into `seals.targets` (page_seal), then attends (sealed_attention).
    seals: PageSeals | None = None
    num_single: int = 0  # so many of the first sequences have one row: a GPU decodes them apart from chunks
    # Leading pages that those share; layers without a window read them once for many rows.
    tree: TreePlan | None = None
    is_batch_invariant: bool = (
        False  # a GPU's sums are cut alike whatever is in the batch; a CPU's always are
    )

    @property
    def num_sequences(self) -> int:
        """Sequences that contribute rows."""
        return self.context_lengths.shape[0]

    def sequences(self, first: int, end: int) -> Batch:
        """What attention needs to know of the sequences [first, end); their first row is row 0."""
        seals = self.seals
        return replace(
            self,
            query_starts=self.query_starts[first : end + 1] - self.query_starts[first],
            context_lengths=self.context_lengths[first:end],
            page_table=self.page_table[first:end],
            seals=None if seals is None else replace(seals, own_pages=seals.own_pages[first:end]),
            num_single=max(0, min(end, self.num_single) - first),
            tree=None,
        )
