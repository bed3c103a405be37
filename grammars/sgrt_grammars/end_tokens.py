"""Special tokens that end a generation, by their text.

Model files name one end token, often the one of plain text and not the one that ends a chat turn; the
others are known by how they are spelled.
"""

from __future__ import annotations

from typing import Final

END_TOKEN_TEXTS: Final = frozenset(
    {
        "</s>",
        "<eos>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<end_of_turn>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
    }
)
