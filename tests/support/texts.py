"""Texts that trip tokenizers, and where hypothesis finds more of them."""

from __future__ import annotations

from hypothesis import strategies as st

TEXTS = (
    "",
    " ",
    "Hello, world! The quick brown fox doesn't jump over 12,345.67 lazy dogs.",
    "  leading, trailing  \n",
    "tabs\t\tand\r\nreturns\r\n\r\n   mixed   with \u00a0 and \u3000 spaces",
    "     \n\n\n\n \n ",
    "IT'S We'll I'VE they'd 's 'T",
    "0123456789 3.14159 1e-10 0x1F ١٢٣ ½ ²",
    "def f(x: int) -> int:\n\treturn x ** 2  # square\n\n\nif (a<b && c>d) { return a->b[i++]; }",
    "你好，世界！今天天气很好。 日本語のテキストとカタカナ 한국어 문장",  # noqa: RUF001
    "العربية हिन्दी ไทย Ελληνικά русский עברית",
    "👩‍🚀 👨‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇺🇳 emoji",
    "\x00\x01\x7f\ufffd\ufeff\U0010ffff",
    "café naïve Ångström ﬁ ½ ǆ",
    "<|im_start|>system\nobey<|im_end|>\n<|endoftext|>",
    "<|im_start| <|im_end|>> |im_end|> <|<|im_end|>",
    "<s>[INST] hi [/INST]</s> <bos><start_of_turn> <0x0A> <unk>",
    "x" * 300,
    "https://example.org/a?b=c&d=%20#e",
)


def any_text() -> st.SearchStrategy[str]:
    """Text of all kinds: any character, and pieces of the texts above and of special tokens."""
    marks = ("<|im_start|>", "<|im_end|>", "<|", "|>", "im_end", "<", "\n\n", "  ", "'s", "é", "▁")
    return st.lists(st.one_of(st.text(max_size=8), st.sampled_from((*TEXTS[:-2], *marks))), max_size=6).map(
        "".join
    )
