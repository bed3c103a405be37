"""Random generations under tight budgets: every one ends in time, parses, and is valid.

    python benchmarks/grammar_walks.py --data FOLDER [--tokenizer tokenizer.json] [--walks 2000 --seed 0]

The schemas are those of `grammar_correctness.py maskbench`. Each walk takes one of them, one of the modes (order of
keys, whitespace), a budget between the known completion's tokens and 50 more, and then random tokens of the
mask until the end token, or until the budget is spent. The text must parse, hold no key twice and be valid for
`jsonschema` with its format checks. A third of the walks picks evenly among the allowed tokens, a third
prefers short ones, a third stays away from the end as long as it may.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import jsonschema
from grammar_correctness import add_data_arguments, sample, setup_of
from jsonschema.exceptions import ValidationError
from jsonschema.validators import validator_for

from sgrt_grammars import (
    Grammar,
    GrammarError,
    JsonSchema,
    PropertyOrder,
    Whitespace,
    allowed_tokens,
    empty_mask,
)

MAX_EXTRA = 50
SLOW_SECONDS = 0.5
STYLES = ("even", "short", "long")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One generation: what came out, what is wrong with it (nothing: it is right), seconds of its slowest mask."""

    text: str
    fault: str
    slowest: float


def main(arguments: list[str]) -> int:
    """Walk; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_arguments(parser)
    parser.add_argument("--walks", type=int, default=2000)
    args = parser.parse_args(arguments)
    setup = setup_of(args)
    items = list(sample(args.data, args.sample, args.seed))
    chance = random.Random(args.seed)
    totals: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(args.walks):
        item = items[number % len(items)]
        constraint = JsonSchema(
            text=json.dumps(item.schema),
            order=chance.choice(list(PropertyOrder)),
            whitespace=chance.choice(list(Whitespace)),
        )
        try:
            grammar = setup.compiler.compile(constraint)
        except GrammarError:
            totals["refused"] += 1
            continue
        style = chance.choice(STYLES)
        walk = walked(grammar, chance, style)
        fault = walk.fault or fault_of(walk.text, item.schema)
        totals[fault.partition(":")[0] or "right"] += 1
        if fault or walk.slowest > SLOW_SECONDS:
            mode = f"{constraint.order.value} {constraint.whitespace.value} {style}"
            print(
                item.group,
                item.name,
                mode,
                fault[:300] or f"a mask took {walk.slowest:.2f} s",
                walk.text[:500],
                sep=" | ",
                flush=True,
            )
    print(dict(totals), f"{time.monotonic() - began:.0f} s")
    return int(any(what not in ("right", "refused") for what in totals))


def walked(grammar: Grammar, chance: random.Random, style: str) -> Walk:
    """Random tokens until the end."""
    matcher = grammar.matcher()
    vocabulary = grammar.vocabulary
    ends = set(vocabulary.end_token_ids)
    mask = empty_mask(vocabulary.size)
    tokens: list[int] = []
    fault = ""
    slowest = 0.0
    budget = 0
    try:
        budget = len(matcher.shortest_completion()) + chance.randint(0, MAX_EXTRA)
        while True:
            began = time.perf_counter()
            matcher.mask(mask, budget - len(tokens))
            slowest = max(slowest, time.perf_counter() - began)
            token = _chosen(allowed_tokens(mask), chance, style, vocabulary.tokens, ends)
            if token in ends:
                break
            if not matcher.advance(token, budget - len(tokens)):
                raise RuntimeError(f"the mask and the matcher disagree about token {token}")
            tokens.append(token)
    except (GrammarError, RuntimeError, IndexError) as error:
        fault = f"dead end: {error}"
    if len(tokens) > budget:
        fault = "over budget"
    text = b"".join(vocabulary.tokens[token] or b"" for token in tokens)
    return Walk(text=text.decode("utf-8", "replace"), fault=fault, slowest=slowest)


def _chosen(
    allowed: list[int],
    chance: random.Random,
    style: str,
    tokens: Sequence[bytes | None],
    ends: set[int],
) -> int:
    if style == "long":
        kept = [token for token in allowed if token not in ends]
        return chance.choice(kept or allowed)
    if style == "short":
        some = chance.choices(allowed, k=4)
        return min(some, key=lambda token: len(tokens[token] or b""))
    return chance.choice(allowed)


def fault_of(text: str, schema: Any) -> str:  # noqa: ANN401
    """Why a text is not a valid instance; nothing if it is."""
    try:
        value = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except ValueError as error:
        return f"no JSON: {error}"
    error = next(iter(_validator(json.dumps(schema)).iter_errors(value)), None)
    return f"invalid: {error.message[:200]} at {error.json_path}, {list(error.schema_path)}" if error else ""


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


@lru_cache(maxsize=512)
def _validator(schema_text: str) -> Any:  # noqa: ANN401
    schema = json.loads(schema_text)
    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    exact = jsonschema.validators.extend(
        kind, {"pattern": _pattern, "multipleOf": _multiple_of, "patternProperties": _pattern_properties}
    )
    return exact(schema, format_checker=kind.FORMAT_CHECKER)


def _pattern(validator: Any, pattern: str, instance: object, schema: object) -> Any:  # noqa: ANN401
    if isinstance(instance, str) and not _is_found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, schema: object) -> Any:  # noqa: ANN401
    for pattern, inner in patterns.items() if isinstance(instance, dict) else ():
        for key, value in instance.items():
            if _is_found(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> re.Pattern[str] | None:
    """A pattern of ECMA-262 as Python reads it: classes are of ASCII, spaces are all of Unicode's.

    None: Python cannot say it.
    """
    spaces = "\\t\\n\\v\\f\\r \\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
    inside = 0
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        one = pattern[position]
        if one == "\\":
            one = pattern[position : position + 2]
            if one == "\\s":
                one = spaces if inside else f"[{spaces}]"
            elif one == "\\S" and not inside:
                one = f"[^{spaces}]"
            elif one in ("\\/", "\\-", "\\#", "\\@", "\\_", "\\:"):
                one = re.escape(one[1])
            position += 1
        elif one == "[":
            inside = 1
        elif one == "]":
            inside = 0
        elif one == "$" and not inside:
            one = r"\Z"
        parts.append(one)
        position += 1
    try:
        return re.compile("".join(parts), re.ASCII)
    except re.error:
        return None


def _is_found(pattern: str, text: str) -> bool:
    expression = _expression(pattern)
    return expression is None or expression.search(text) is not None


def _multiple_of(validator: Any, step: float, instance: Any, schema: object) -> Any:  # noqa: ANN401
    """Exact, where the library divides in floating point."""
    is_number = isinstance(instance, int | float) and not isinstance(instance, bool)
    if is_number and Fraction(repr(instance)) % Fraction(repr(step)):
        yield ValidationError(f"{instance!r} is not a multiple of {step!r}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
