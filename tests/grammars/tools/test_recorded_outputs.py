"""Recorded outputs of many models with the parse each must give, from the package `canitoolcall`."""

from __future__ import annotations

import importlib
import json
import random
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from sgrt_grammars.tools.events import CallArguments, CallStart, Content, Reasoning
from sgrt_grammars.tools.format import Format, ToolFormat
from sgrt_grammars.tools.formats import FORMATS
from sgrt_grammars.tools.parser import OutputParser
from sgrt_grammars.tools.tool import Tool

PASSES_WANTED = 460

FAMILIES = {
    "qwen3-hermes": "hermes",
    "qwen3-xml": "qwen_xml",
    "mistral": "mistral",
    "glm": "glm",
    "gpt-oss": "harmony",
    "gemma4": "gemma",
}
MODELS = {
    "Llama-4": "pythonic",
    "Llama-3": "llama_json",
    "Kimi-K3": "kimi_k3",
    "Kimi-K2": "kimi_k2",
    "DeepSeek-V3-": "deepseek",
    "DeepSeek-V3.1": "deepseek_v31",
    "DeepSeek-V3.2": "deepseek_v32",
    "DeepSeek-V4-": "deepseek_v4",
    "DeepSeek-V4.1": "deepseek_v41",
}


def package(name: str) -> ModuleType:
    """A module of the corpus, which is no dependency of the project's."""
    pytest.importorskip("canitoolcall", reason="pip install canitoolcall to read the recorded outputs")
    return importlib.import_module(f"canitoolcall.{name}")


def format_of(fixture: Any) -> Format:  # noqa: ANN401 (untyped package)
    if fixture.family in FAMILIES:
        return FORMATS[FAMILIES[fixture.family]]
    name = next(name for part, name in MODELS.items() if part in fixture.models[0])
    return FORMATS[name]


def generation_prompt(fixture: Any, family: Any) -> str:  # noqa: ANN401 (untyped package)
    if fixture.generation_prompt is not None:
        return str(fixture.generation_prompt)
    known = {model.repo: model.default_generation_prompt for model in family.reference_models}
    return str(known.get(fixture.models[0]) or "")


def pieces_of(text: str, seed: int, longest: int) -> list[str]:
    source, pieces = random.Random(seed), []
    while text:
        size = source.randint(1, longest)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def parse(fixture: Any, family: Any, pieces: list[str]) -> Any:  # noqa: ANN401 (untyped package)
    results = package("results")
    form = format_of(fixture)
    tools = [
        Tool(name=tool["function"]["name"], parameters=json.dumps(tool["function"].get("parameters") or {}))
        for tool in fixture.tools
    ]
    prompt = generation_prompt(fixture, family)
    reasoning = form.reasoning if isinstance(form, ToolFormat) else None
    is_open = reasoning is not None and prompt.rfind(reasoning.begin) > prompt.rfind(reasoning.end)
    parser = OutputParser(form, tools, is_reasoning_open=is_open)
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish()
    calls: list[list[str]] = []
    for event in events:
        if isinstance(event, CallStart):
            calls.append([event.name, ""])
        elif isinstance(event, CallArguments):
            calls[-1][1] += event.text
    return results.ParseResult(
        content="".join(event.text for event in events if isinstance(event, Content)) or None,
        reasoning_content="".join(event.text for event in events if isinstance(event, Reasoning)) or None,
        tool_calls=tuple(results.ParsedToolCall(*call) for call in calls),
    )


@pytest.mark.slow
def test_recorded_outputs_are_read_as_their_authors_say() -> None:
    fixtures, checks, results = package("fixtures"), package("checks"), package("results")
    families = fixtures.load_families()
    counts: Counter[str] = Counter()
    failed: list[str] = []
    for fixture in fixtures.load_fixtures():
        family, text = families[fixture.family], fixture.raw_output
        whole = parse(fixture, family, [text])
        streams = {"one": whole, "token": parse(fixture, family, list(text))}
        for seed in range(1, 6):
            streams[f"rand:{seed}:8"] = parse(fixture, family, pieces_of(text, seed, 25))
        rows = checks.run_checks(fixture, family, results.Observation(nonstream=whole, streams=streams))
        status = checks.case_status(rows).value
        counts[status] += 1
        if status != "pass":
            failed.append(fixture.id)
    assert counts["pass"] >= PASSES_WANTED, f"{dict(counts)}: {failed}"
