"""Masks against brute force: every token tried byte by byte, in states of random generations over a data set.

    python benchmarks/grammar_masks.py --data FOLDER --tokenizer tokenizer.json [--sample 200 --states 20] [--part 0/4]

The schemas are those of `grammar_correctness.py maskbench`. In each state the mask must hold exactly the tokens whose
bytes a matcher of another vocabulary, in which every byte is a token of its own, takes one after the other, and end
tokens exactly where that matcher may end. Under a budget between the known completion and twice its tokens, every
token (of a sample) that the mask allows must be taken and leave a completion within what is left.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from grammar_correctness import Item, add_data_arguments, sample, setup_of

from sgrt_grammars import (
    GrammarCompiler,
    GrammarError,
    JsonSchema,
    Matcher,
    PropertyOrder,
    Vocabulary,
    Whitespace,
    allowed_tokens,
    empty_mask,
)

END = 256
NUM_PROMISES = 20


def main(arguments: list[str]) -> int:
    """Compare; 1 if any mask was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_arguments(parser)
    parser.set_defaults(sample=200)
    parser.add_argument("--states", type=int, default=20)
    parser.add_argument("--part", default="0/1", help="I/N: every N-th schema, from the I-th on")
    args = parser.parse_args(arguments)
    setup = setup_of(args)
    index, step = map(int, args.part.split("/"))
    comparison = Comparison(vocabulary=setup.compiler.vocabulary, compiler=setup.compiler)
    began = time.monotonic()
    for item in list(sample(args.data, args.sample, args.seed))[index::step]:
        comparison.compare(item, random.Random(f"{args.seed}/{item.name}"), args.states)
    print(dict(comparison.counts), f"{time.monotonic() - began:.0f} s")
    return int(any(what.startswith("wrong") for what in comparison.counts))


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Two compilers side by side, and what came out."""

    vocabulary: Vocabulary
    compiler: GrammarCompiler
    counts: Counter[str] = field(default_factory=Counter)
    _bytes: GrammarCompiler = field(init=False)
    _sorted: list[tuple[bytes, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._bytes = GrammarCompiler(Vocabulary([*(bytes([byte]) for byte in range(256)), None], [END]))
        ends = set(self.vocabulary.end_token_ids)
        self._sorted = sorted(
            (text, token) for token, text in enumerate(self.vocabulary.tokens) if text and token not in ends
        )

    def compare(self, item: Item, chance: random.Random, num_states: int) -> None:
        """Walk through states of one schema and compare the masks of each."""
        constraint = JsonSchema(
            text=json.dumps(item.schema),
            order=chance.choice(list(PropertyOrder)),
            whitespace=chance.choice(list(Whitespace)),
        )
        try:
            start, start_bytes = self.compiler.compile(constraint), self._bytes.compile(constraint)
        except GrammarError:
            self.counts["refused schemas"] += 1
            return
        self.counts["schemas"] += 1
        matcher, by_bytes = start.matcher(), start_bytes.matcher()
        for _ in range(num_states):
            allowed = self._compare_state(item, matcher, by_bytes, chance)
            if matcher.is_accepting and (not allowed or chance.random() < 0.2):
                matcher, by_bytes = start.matcher(), start_bytes.matcher()
                continue
            some = chance.choices(allowed, k=2)
            token = min(some, key=lambda one: len(self.vocabulary.tokens[one] or b""))
            if not matcher.advance(token):
                self._report("wrong: an allowed token is refused", item, token)
                return
            for byte in self.vocabulary.tokens[token] or b"":
                by_bytes.advance(byte)

    def _compare_state(
        self, item: Item, matcher: Matcher, by_bytes: Matcher, chance: random.Random
    ) -> list[int]:
        """Compare the mask of one state; the tokens it allows, without end tokens."""
        row = empty_mask(self.vocabulary.size)
        matcher.mask(row)
        ends = set(self.vocabulary.end_token_ids)
        allowed = allowed_tokens(row)
        expected = self._tried(by_bytes)
        if by_bytes.is_accepting:
            expected |= ends
        self.counts["states"] += 1
        self.counts["dense states"] += len(allowed) > self.vocabulary.size // 4
        for token in sorted(expected.symmetric_difference(allowed))[:3]:
            self._report(f"wrong: {'missing' if token in expected else 'extra'}", item, token)
        self._compare_budget(item, matcher, chance)
        return [token for token in allowed if token not in ends]

    def _compare_budget(self, item: Item, matcher: Matcher, chance: random.Random) -> None:
        witness = len(matcher.shortest_completion())
        remaining = witness + chance.randint(0, witness)
        row = empty_mask(self.vocabulary.size)
        matcher.mask(row, remaining)
        allowed = [token for token in allowed_tokens(row) if token not in self.vocabulary.end_token_ids]
        for token in chance.sample(allowed, min(NUM_PROMISES, len(allowed))):
            fork = matcher.fork()
            if not fork.advance(token) or len(fork.shortest_completion()) >= remaining:
                try:
                    fork.mask(row, remaining - 1)
                except GrammarError as error:
                    self._report(f"wrong: a budget of {remaining} is broken ({error})", item, token)
            self.counts["promises"] += 1

    def _tried(self, matcher: Matcher) -> set[int]:
        """The tokens whose bytes are taken, all tried in alphabetical order, what begins alike only once."""
        found: set[int] = set()
        path = b""
        position = 0
        while position < len(self._sorted):
            text, token = self._sorted[position]
            shared = _shared(path, text)
            matcher.rollback(len(path) - shared)
            path = text[:shared]
            position += 1
            for byte in text[shared:]:
                if not matcher.advance(byte):
                    refused = path + bytes([byte])
                    position = bisect_left(self._sorted, (refused + b"\xff" * 400, 0), position)
                    break
                path += bytes([byte])
            else:
                found.add(token)
        matcher.rollback(len(path))
        return found

    def _report(self, what: str, item: Item, token: int) -> None:
        self.counts[what.partition("(")[0]] += 1
        print(what, item.group, item.name, token, self.vocabulary.tokens[token], sep=" | ", flush=True)


def _shared(one: bytes, other: bytes) -> int:
    """The length of what both begin with."""
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
