"""The decoding engines that `benchmarks/grammar.py` compares, each behind the same five calls."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

END_NAME = "<|im_end|>"


class Tokens:
    """A byte-level tokenizer file: ids, encoding, the end token and the bytes of each token."""

    def __init__(self, path: Path) -> None:
        self.json_text = path.read_text(encoding="utf8")
        self.tokenizer = Tokenizer.from_str(self.json_text)
        self.size: int = self.tokenizer.get_vocab_size()
        self.end: int = self.tokenizer.token_to_id(END_NAME)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, no special tokens added."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids


class Engine(Protocol):
    """What the harness asks of an engine. `bits` holds the last mask as packed words."""

    bits: NDArray[np.int32]

    def compile(self, schema_text: str) -> Any:  # noqa: ANN401 (each engine has its own type)
        """A grammar, or an exception: an honest refusal."""
        ...

    def start(self, grammar: Any) -> Any:  # noqa: ANN401
        """A matcher at the start."""
        ...

    def mask(self, matcher: Any) -> None:  # noqa: ANN401
        """Fill `bits`."""
        ...

    def commit(self, matcher: Any, token: int) -> bool:  # noqa: ANN401
        """Take a token."""
        ...

    def may_end(self, matcher: Any) -> bool:  # noqa: ANN401
        """Whether the text may end."""
        ...

    def witness(self, matcher: Any) -> int | None:  # noqa: ANN401
        """Tokens of the shortest completion known; None of an engine without budgets."""
        ...

    def mask_within(self, matcher: Any, remaining: int) -> None:  # noqa: ANN401
        """Fill `bits` with what can be completed in so many tokens."""
        ...


class Sgrt:
    """The decoder of sgrt, with flexible whitespace and keys in the schema's order."""

    order = "schema"

    def __init__(self, tokens: Tokens) -> None:
        from sgrt_grammars import (  # noqa: PLC0415
            JsonSchema,
            PropertyOrder,
            Vocabulary,
            Whitespace,
            compile_grammar,
        )

        self._constraint = partial(
            JsonSchema, whitespace=Whitespace.FLEXIBLE, order=PropertyOrder(self.order)
        )
        self._compile = compile_grammar
        self._vocabulary = Vocabulary.from_tokenizer_json(tokens.json_text, end_token_ids=[tokens.end])
        compile_grammar(JsonSchema(text='{"const":1}'), self._vocabulary)
        self._row = np.zeros((tokens.size + 31) // 32, np.uint32)
        self.bits = self._row.view(np.int32)

    def compile(self, schema_text: str) -> Any:  # noqa: ANN401
        """Compile."""
        return self._compile(self._constraint(text=schema_text), self._vocabulary)

    def start(self, grammar: Any) -> Any:  # noqa: ANN401
        """A matcher at the start."""
        return grammar.matcher()

    def mask(self, matcher: Any) -> None:  # noqa: ANN401
        """Fill `bits`."""
        matcher.mask(self._row)

    def commit(self, matcher: Any, token: int) -> bool:  # noqa: ANN401
        """Take a token."""
        return bool(matcher.advance(token))

    def may_end(self, matcher: Any) -> bool:  # noqa: ANN401
        """Whether the text may end."""
        return bool(matcher.is_accepting)

    def witness(self, matcher: Any) -> int | None:  # noqa: ANN401
        """Tokens of the shortest completion known."""
        return len(matcher.shortest_completion())

    def mask_within(self, matcher: Any, remaining: int) -> None:  # noqa: ANN401
        """Fill `bits` with what can be completed in so many tokens."""
        matcher.mask(self._row, remaining)


class SgrtAnyOrder(Sgrt):
    """The same with keys in any order: the bar of correctness, as instances come in any order."""

    order = "any"


class WithoutBudgets:
    """An engine that knows no completions."""

    def witness(self, matcher: Any) -> int | None:  # noqa: ANN401
        """None."""
        return None

    def mask_within(self, matcher: Any, remaining: int) -> None:  # noqa: ANN401
        """Never asked for."""
        raise AssertionError(f"{type(self).__name__} has no budgets ({matcher}, {remaining})")


class Llguidance(WithoutBudgets):
    """llguidance with its slices for JSON."""

    def __init__(self, tokens: Tokens) -> None:
        import llguidance  # noqa: PLC0415

        self._matcher = llguidance.LLMatcher
        self._tokenizer = llguidance.LLTokenizer(
            tokens.json_text,
            n_vocab=tokens.size,
            eos_token=tokens.end,
            slices=llguidance.LLTokenizer.json_slices(),
        )
        self.bits = np.zeros((tokens.size + 31) // 32, np.int32)
        self._address, self._num_bytes = self.bits.ctypes.data, self.bits.nbytes

    def compile(self, schema_text: str) -> Any:  # noqa: ANN401
        """Compile; its errors are inside the matcher."""
        matcher = self._matcher(
            self._tokenizer, self._matcher.grammar_from_json_schema(schema_text), log_level=0
        )
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, grammar: Any) -> Any:  # noqa: ANN401
        """A matcher at the start."""
        return grammar.deep_copy()

    def mask(self, matcher: Any) -> None:  # noqa: ANN401
        """Fill `bits`."""
        matcher.unsafe_compute_mask_ptr(self._address, self._num_bytes)

    def commit(self, matcher: Any, token: int) -> bool:  # noqa: ANN401
        """Take a token."""
        return bool(matcher.consume_token(token))

    def may_end(self, matcher: Any) -> bool:  # noqa: ANN401
        """Whether the text may end."""
        return bool(matcher.is_accepting())


class Xgrammar(WithoutBudgets):
    """xgrammar as the specification asks: additional properties and any whitespace, compiled on demand."""

    def __init__(self, tokens: Tokens) -> None:
        import torch  # noqa: PLC0415
        import xgrammar  # noqa: PLC0415

        torch.set_num_threads(1)
        self._end = tokens.end
        self._matcher = xgrammar.GrammarMatcher
        information = xgrammar.TokenizerInfo(
            _token_bytes(tokens),
            vocab_type=xgrammar.VocabType.RAW,
            vocab_size=tokens.size,
            stop_token_ids=[tokens.end],
        )
        self._words = xgrammar.allocate_token_bitmask(1, tokens.size)
        self.bits = self._words.numpy()[0]
        self._compiler = xgrammar.GrammarCompiler(
            information, max_threads=1, cache_enabled=True, enable_dynamic_compilation=True
        )

    def compile(self, schema_text: str) -> Any:  # noqa: ANN401
        """Compile."""
        return self._compiler.compile_json_schema(schema_text, any_whitespace=True, strict_mode=False)

    def start(self, grammar: Any) -> Any:  # noqa: ANN401
        """A matcher at the start."""
        return self._matcher(grammar)

    def mask(self, matcher: Any) -> None:  # noqa: ANN401
        """Fill `bits`; False means that everything is allowed."""
        if not matcher.fill_next_token_bitmask(self._words):
            self.bits[:] = -1

    def commit(self, matcher: Any, token: int) -> bool:  # noqa: ANN401
        """Take a token."""
        return bool(matcher.accept_token(token))

    def may_end(self, matcher: Any) -> bool:  # noqa: ANN401
        """Whether the text may end."""
        self.mask(matcher)
        return bool(int(self.bits[self._end >> 5]) >> (self._end & 31) & 1)


def _token_bytes(tokens: Tokens) -> list[bytes | str]:
    """Bytes of each token by the printable stand-ins of byte-level BPE; special tokens by name."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    table |= {chr(0x100 + i): b for i, b in enumerate(b for b in range(256) if b not in set(printable))}
    added = {entry["id"] for entry in json.loads(tokens.json_text)["added_tokens"]}
    names = [tokens.tokenizer.id_to_token(token) or "" for token in range(tokens.size)]
    return [
        name if token in added or not name else bytes(table[character] for character in name)
        for token, name in enumerate(names)
    ]


ENGINES = {"sgrt": Sgrt, "sgrt-any-order": SgrtAnyOrder, "llguidance": Llguidance, "xgrammar": Xgrammar}
