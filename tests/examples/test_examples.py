"""Every example runs on a script, from its own `main`."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sgrt

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and pydantic look their annotations up
    spec.loader.exec_module(module)
    return module


def test_every_example_has_a_test() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {test.removeprefix("test_") for test in globals() if test.removeprefix("test_") in names}


def test_triage(capsys: pytest.CaptureFixture[str]) -> None:
    def script(prompt: str) -> object:
        if "as JSON." in prompt:
            return {"product": "phone", "mood": "angry", "wants_refund": True}
        if "Copy the reference." in prompt:
            return re.findall(r"[A-C]-[0-9]{5}", prompt)[-1]
        return " We are sorry!\nBest"

    results = load("triage").main(sgrt.ScriptedBackend(script, likes=["billing"]))
    assert [result.category for result in results] == ["billing"] * 4
    assert [result.reference for result in results] == ["A-10482", "B-20017", "C-31555", "A-99120"]
    assert results[0].facts.mood == "angry"
    assert results[0].reply == " We are sorry!"
    shown = capsys.readouterr().out
    assert "tokens/s" in shown and "came from the cache" in shown


def test_chat(capsys: pytest.CaptureFixture[str]) -> None:
    answers = load("chat").main(sgrt.ScriptedBackend(["The Seine.", "Paris.", "Au revoir."]))
    assert answers == ["The Seine.", "Paris.", "Au revoir."]
    assert "(0 of" in capsys.readouterr().out


def test_few_shot_classification() -> None:
    backend = sgrt.ScriptedBackend([], likes=[" negative\n"])
    assert load("few_shot_classification").main(backend) == ["negative"] * 3


def test_react_agent() -> None:
    backend = sgrt.ScriptedBackend(
        [
            "I need Rome first.",
            {"name": "population", "arguments": {"city": "Rome"}},
            "Now Oslo.",
            {"name": "population", "arguments": {"city": "Oslo"}},
            "The difference.",
            {"name": "calculate", "arguments": {"left": 2746000, "operator": "-", "right": 717000}},
            "Done.",
            {"name": "finish", "arguments": {"answer": "2029000"}},
        ]
    )
    answered = load("react_agent").main(backend)
    assert answered.answer == "2029000"
    assert [step.observation for step in answered.steps[:3]] == ["2746000", "717000", "2029000"]


def test_tree_of_thought() -> None:
    def script(prompt: str) -> object:
        return 9 if "as a number" in prompt.rsplit("<|user|>", 1)[-1] else " Nine stay.\n"

    solution = load("tree_of_thought").main(sgrt.ScriptedBackend(script, likes=["4"]))
    assert solution.answer == 9
    assert solution.thoughts == ["Nine stay.", "Nine stay."]


def test_skeleton_of_thought() -> None:
    def script(prompt: str) -> object:
        return " Keep it dark. It helps.\n\n" if "Point:" in prompt else " Dark room.\n"

    article = load("skeleton_of_thought").main(sgrt.ScriptedBackend(script))
    assert article.split("\n\n") == ["Dark room.\nKeep it dark. It helps."] * 3


def test_judge() -> None:
    verdict = load("judge").main(sgrt.ScriptedBackend(["Clear.", "Thin.", "Common."], likes=["B"]))
    assert verdict.grade == "B"
    assert verdict.remarks == {"clarity": "Clear.", "evidence": "Thin.", "originality": "Common."}


def test_multi_document_qa() -> None:
    def script(prompt: str) -> object:
        last = prompt.rsplit("<|user|>", 1)[-1]
        if "Findings:" in last:
            return "Twelve euros." if "ticket" in last else "At five."
        return "nothing"

    assert load("multi_document_qa").main(sgrt.ScriptedBackend(script)) == ["Twelve euros.", "At five."]


def test_json_extraction() -> None:
    reply = {
        "customer": "Ada Byron",
        "items": [
            {"article": "lamp", "color": "blue", "count": 3},
            {"article": "chair", "color": "green", "count": 1},
        ],
        "total": 240.5,
        "is_urgent": True,
    }
    order = load("json_extraction").main(sgrt.ScriptedBackend([reply]))
    assert order.items[1].color.value == "green"
    assert order.total == 240.5


def test_streaming(capsys: pytest.CaptureFixture[str]) -> None:
    reply = {"name": "Onion soup", "ingredients": ["onions", "bread"], "minutes": 40}
    recipe = load("streaming").main(sgrt.ScriptedBackend(["Warm and sweet.", reply]))
    assert recipe.minutes == 40
    shown = capsys.readouterr().out
    assert shown.startswith("Warm and sweet.\n")
    assert "so far: Onion soup, ['onions']" in shown


def test_batch_evaluation() -> None:
    backend = sgrt.ScriptedBackend([], likes=["Rome", "dog", "9", "blue"])
    assert load("batch_evaluation").main(backend) >= 0.25


def test_typed_pipeline() -> None:
    backend = sgrt.ScriptedBackend(["foot", {"length": 12, "width": 10}, 2])
    assert load("typed_pipeline").main(backend) == pytest.approx(22.3, abs=0.01)


def test_retry_with_checkpoint() -> None:
    backend = sgrt.ScriptedBackend([3, 7, 8, "one line", "a\nb\nc"])
    assert load("retry_with_checkpoint").main(backend) == (8, "a\nb\nc")
