"""The code in the documents runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from sgrt_frontend.call import Call
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_grammars.constraint import Choice, JsonSchema, Regex

DOCUMENTS = Path(__file__).parents[2] / "docs"


class Agreeable(ScriptedBackend):
    """Gives some answer that satisfies the call's constraint."""

    def _next_answer(self, call: Call) -> Answer:
        constraint = call.constraint
        if isinstance(constraint, Choice):
            return Answer(text=constraint.options[0])
        if isinstance(constraint, Regex):
            return Answer(text="AB-123" if "A-Z" in constraint.pattern else "7")
        if isinstance(constraint, JsonSchema):
            return Answer(text=json.dumps(instance(json.loads(constraint.text)), separators=(",", ":")))
        return Answer(text="some words")


def instance(schema: Mapping[str, object]) -> object:
    properties = schema.get("properties")
    if isinstance(properties, dict):
        return {name: instance(part) for name, part in properties.items()}
    return {"string": "word", "integer": 7, "array": []}[str(schema["type"])]


@pytest.mark.parametrize("name", ["programs.md", "coming-from.md"])
def test_code_blocks_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCUMENTS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {"engine": Agreeable(likes=["positive"])}
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        exec(compile("\n" * line + block, str(DOCUMENTS / name), "exec", dont_inherit=True), namespace)
