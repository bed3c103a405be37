"""Random blocks of ggml's types, with scales of a sane size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# type: (columns of a block, bytes of a block, where its f16 fields lie)
BLOCKS = {
    "Q4_0": (32, 18, (0,)),
    "Q4_1": (32, 20, (0, 2)),
    "Q5_0": (32, 22, (0,)),
    "Q5_1": (32, 24, (0, 2)),
    "Q8_0": (32, 34, (0,)),
    "Q4_K": (256, 144, (0, 2)),
    "Q5_K": (256, 176, (0, 2)),
    "Q6_K": (256, 210, (208,)),
}


def random_blocks(type_name: str, rows: int, columns: int, seed: int = 0) -> NDArray[np.uint8]:
    """[rows, bytes per row]; every bit but those of the f16 fields is random."""
    block_columns, block_bytes, halves = BLOCKS[type_name]
    generator = np.random.default_rng(seed)
    blocks = generator.integers(0, 256, (rows, columns // block_columns, block_bytes), dtype=np.uint8)
    for at in halves:
        field = (generator.standard_normal(blocks.shape[:2]) * 0.02).astype(np.float16)
        blocks[..., at : at + 2] = field[..., None].view(np.uint8)
    return blocks.reshape(rows, -1)
