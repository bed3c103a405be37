"""Vocabularies learned from the corpus, so that merges are many and real."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from texts import TEXTS
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from sgrt.tokenizer.data import ByteLevelBpe, ScoredPieces, TokenizerData, TokenType

MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A vocabulary and the merges that were learned with it."""

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]

    @property
    def vocabulary(self) -> dict[str, int]:
        """Ids of the tokens."""
        return {token: index for index, token in enumerate(self.tokens)}

    def byte_level_data(self, pre: str, *, vocabulary_size: int = 0) -> TokenizerData:
        """What a GGUF file with this vocabulary, and marks after it, says."""
        tokens = (*self.tokens, *MARKS)
        kinds = (TokenType.NORMAL,) * len(self.tokens) + (TokenType.CONTROL,) * len(MARKS)
        return TokenizerData(
            definition=ByteLevelBpe(
                tokens=tokens, types=kinds, merges=tuple(" ".join(merge) for merge in self.merges), pre=pre
            ),
            vocabulary_size=vocabulary_size or len(tokens),
            begin_token_ids=(),
            end_token_ids=(len(tokens) - 1, len(tokens) - 3),
            chat_template=None,
            template_tokens=(("bos_token", MARKS[1]), ("eos_token", MARKS[2])),
        )


def _learn(tokenizer: Tokenizer, alphabet: list[str]) -> Learned:
    trainer = trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=alphabet, show_progress=False, special_tokens=[]
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return Learned(
        tokens=tuple(sorted(model["vocab"], key=model["vocab"].__getitem__)),
        merges=tuple((left, right) for left, right in model["merges"]),
    )


@cache
def learn_byte_level() -> Learned:
    """A byte-level vocabulary; its words are cut as GPT-2 cuts them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _learn(tokenizer, pre_tokenizers.ByteLevel.alphabet())


@cache
def learn_pieces() -> ScoredPieces:
    """A SentencePiece vocabulary: marks, user-defined pieces, bytes, then pieces with falling scores."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    learned = _learn(tokenizer, [])
    first = [("<unk>", TokenType.UNKNOWN), ("<s>", TokenType.CONTROL), ("</s>", TokenType.CONTROL)]
    user = [(piece, TokenType.USER_DEFINED) for piece in ("\n\n", "▁▁", "▁▁▁", "<tool_call>")]
    by_byte = [(f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(256)]
    taken = {piece for piece, _ in user}
    merged = [left + right for left, right in learned.merges if left + right not in taken]
    others = [token for token in learned.tokens if token not in set(merged) | taken]
    normal = [(piece, TokenType.NORMAL) for piece in (*merged, *others)]
    rows = [*first, *user, *by_byte, *normal]
    return ScoredPieces(
        tokens=tuple(piece for piece, _ in rows),
        types=tuple(kind for _, kind in rows),
        scores=tuple(
            -1000.0 if kind != TokenType.NORMAL else -float(index) for index, (_, kind) in enumerate(rows)
        ),
        unknown_token_id=0,
        has_space_prefix=False,
    )
