"""How byte-level models cut text into words before merging, by the name a GGUF file gives it (`tokenizer.ggml.pre`).

The expressions are those of the models' own tokenizer.json files. They are part of a model: another cut gives
tokens the model was not trained on, so a name that is not listed here is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from tokenizers import Regex, normalizers, pre_tokenizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

_LETTERS_AND_BREAKS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = _LETTERS_AND_BREAKS % r"\p{N}"
_LLAMA3 = _LETTERS_AND_BREAKS % r"\p{N}{1,3}"
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Digits(Enum):
    """Whether GPT-2's rule sees numbers as a whole or digit by digit."""

    TOGETHER = "together"
    SINGLE = "single"


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitting:
    """One way of cutting text into words.

    `rule` is an expression that matches words, or how GPT-2's own rule treats digits. `is_composed`: text is
    brought into Unicode's composed form (NFC) first. `takes_whole_words`: a word that is a token is taken as it is,
    whether or not merges lead to it.
    """

    rule: str | Digits
    is_composed: bool = False
    takes_whole_words: bool = False

    def normalizer(self) -> Normalizer | None:
        """What is done to the text before it is cut."""
        return normalizers.NFC() if self.is_composed else None

    def pre_tokenizer(self) -> PreTokenizer:
        """What cuts the text, and spells its bytes in GPT-2's alphabet."""
        match self.rule:
            case Digits.TOGETHER:
                return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
            case Digits.SINGLE:
                by_digit = pre_tokenizers.Digits(individual_digits=True)
                return pre_tokenizers.Sequence(
                    [by_digit, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
                )
            case expression:
                by_word = pre_tokenizers.Split(Regex(expression), behavior="isolated")
                return pre_tokenizers.Sequence(
                    [by_word, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
                )


_GPT2_RULE = Splitting(rule=Digits.TOGETHER)
_SINGLE_DIGITS_RULE = Splitting(rule=Digits.SINGLE)
_LLAMA3_RULE = Splitting(rule=_LLAMA3, takes_whole_words=True)

SPLITTINGS: Final[Mapping[str, Splitting]] = MappingProxyType(
    {
        "default": _GPT2_RULE,
        "gpt-2": _GPT2_RULE,
        "smollm": _SINGLE_DIGITS_RULE,
        "starcoder": _SINGLE_DIGITS_RULE,
        "qwen2": Splitting(rule=_QWEN2, is_composed=True),
        "deepseek-r1-qwen": Splitting(rule=_QWEN2),
        "llama-bpe": _LLAMA3_RULE,
        "llama3": _LLAMA3_RULE,
        "llama-v3": _LLAMA3_RULE,
        "tekken": Splitting(rule=_TEKKEN, takes_whole_words=True),
    }
)
