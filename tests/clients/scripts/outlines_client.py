"""outlines, over the plain API and over structured_outputs. Arguments as for openai_client.py."""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import re
import sys
from typing import Literal

import openai
import outlines
from pydantic import BaseModel

TEXT = "héllo wörld 🌍"


class Answer(BaseModel):
    why: str
    score: int


def main() -> None:
    client = openai.OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none", max_retries=0)
    settings = {"temperature": 0, "max_tokens": 200}
    plain, constrained = outlines.from_openai(client, "stub"), outlines.from_vllm(client, "stub")
    assert plain("go", **settings) == TEXT
    assert "".join(plain.stream("go", **settings)) == TEXT
    for model in (plain, constrained):
        Answer.model_validate_json(model("go", Answer, **settings))
    assert constrained("go", Literal["yes", "no"], **settings) in ("yes", "no")
    assert re.fullmatch("[a-c]{3}", constrained("go", outlines.types.Regex("[a-c]{3}"), **settings))
    assert constrained("go", outlines.types.CFG('start: "x" "y"'), **settings) == "xy"


main()
