"""The workloads: what is asked of an engine, and the figure taken from it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import jsonschema

from cpu_parts.prompts import SCHEMA, Prompts, Tokens


class Peer(Protocol):
    """An engine under test. It gets token ids and gives token ids, greedily."""

    name: str

    def generate(
        self, prompts: Sequence[Tokens], max_tokens: int, *, constrained: bool = False
    ) -> list[Tokens]:
        """Hand over all prompts at once; outputs have `max_tokens`, or end with the constraint."""
        ...

    def flush(self) -> None:
        """Forget what was cached."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measurement of one workload."""

    seconds: float
    tokens: int  # in for prefill, out for the rest
    valid: int | None = None  # of the constrained outputs

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a workload needs: the prompts and a way from tokens to text."""

    prompts: Prompts
    decode: Callable[[Tokens], str]


def _timed(
    peer: Peer, prompts: Sequence[Tokens], max_tokens: int, *, constrained: bool = False
) -> tuple[float, list[Tokens]]:
    start = time.perf_counter()
    outputs = peer.generate(prompts, max_tokens, constrained=constrained)
    return time.perf_counter() - start, outputs


def _count(outputs: Sequence[Tokens]) -> int:
    return sum(map(len, outputs))


def prefill(bench: Bench, peer: Peer, salt: int) -> Result:
    """One prompt of 1,024 tokens, one token out."""
    seconds, _ = _timed(peer, [bench.prompts.plain(1024, 300 + salt)], 1)
    return Result(seconds=seconds, tokens=1024)


def decode1(bench: Bench, peer: Peer, salt: int) -> Result:
    """One cached prompt of 65 tokens, 129 tokens out."""
    prompts = bench.prompts.short(1, 10 + salt)
    peer.generate(prompts, 1)
    seconds, outputs = _timed(peer, prompts, 129)
    return Result(seconds=seconds, tokens=_count(outputs))


def decode16(bench: Bench, peer: Peer, salt: int) -> Result:
    """Sixteen prompts of 65 tokens at once, 128 tokens out each, prefill included."""
    seconds, outputs = _timed(peer, bench.prompts.short(16, 20 + salt), 128)
    return Result(seconds=seconds, tokens=_count(outputs))


def agent(bench: Bench, peer: Peer, salt: int) -> Result:
    """32 requests at once on one prefix of 1,000 tokens, 48 tokens out each."""
    seconds, outputs = _timed(peer, bench.prompts.shared(32, salt), 48)
    return Result(seconds=seconds, tokens=_count(outputs))


def json_agent(bench: Bench, peer: Peer, salt: int) -> Result:
    """The same requests under a JSON Schema of six fields, at most 160 tokens out each."""
    seconds, outputs = _timed(peer, bench.prompts.shared(32, 40 + salt), 160, constrained=True)
    valid = sum(_is_valid(bench.decode(output)) for output in outputs)
    return Result(seconds=seconds, tokens=_count(outputs), valid=valid)


def chat(bench: Bench, peer: Peer, salt: int) -> Result:
    """Eight conversations of six turns, 48 tokens out each turn."""
    prompts = bench.prompts
    histories = [prompts.turn("system", prompts.plain(120, salt * 8 + index)) for index in range(8)]
    seconds, tokens = 0.0, 0
    for turn in range(6):
        histories = [
            history
            + prompts.turn("user", prompts.question(30, salt * 99 + index * 7 + turn))
            + prompts.opener()
            for index, history in enumerate(histories)
        ]
        spent, outputs = _timed(peer, histories, 48)
        seconds, tokens = seconds + spent, tokens + _count(outputs)
        end = prompts.encode("<|im_end|>\n")
        histories = [history + output + end for history, output in zip(histories, outputs, strict=True)]
    return Result(seconds=seconds, tokens=tokens)


def _is_valid(text: str) -> bool:
    try:
        jsonschema.validate(json.loads(text), SCHEMA)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


WORKLOADS: Mapping[str, Callable[[Bench, Peer, int], Result]] = MappingProxyType(
    {
        "prefill": prefill,
        "decode1": decode1,
        "decode16": decode16,
        "agent": agent,
        "json": json_agent,
        "chat": chat,
    }
)
