"""langchain-openai: text, streams, structured output by every method, tools. Arguments as for openai_client.py."""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

TEXT = "héllo wörld 🌍"


class Answer(BaseModel):
    """An answer."""

    why: str = Field(max_length=12)
    score: int


@tool
def look_up(city: str, days: int) -> str:
    """Look up the weather."""
    return f"{city}: sunny for {days} days"


def model(url: str, **fields: object) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=f"{url}/v1",
        api_key="none",
        model="stub",
        temperature=0,
        max_tokens=200,
        max_retries=0,
        **fields,
    )


def main() -> None:
    url, calling_url = sys.argv[1:3]
    assert model(url).invoke("go").content == TEXT
    assert "".join(chunk.content for chunk in model(url, stream_usage=True).stream("go")) == TEXT
    for method in ("json_schema", "function_calling"):
        made = model(url).with_structured_output(Answer, method=method).invoke("go")
        assert isinstance(made, Answer), method
    calling = model(calling_url).bind_tools([look_up])
    said = calling.invoke("go")
    (call,) = said.tool_calls
    assert (call["name"], call["args"]["city"]) == ("look_up", "Bern")
    history = [HumanMessage("go"), said, ToolMessage(look_up.invoke(call["args"]), tool_call_id=call["id"])]
    assert model(url).bind_tools([look_up], tool_choice="none").invoke(history).content == TEXT
    merged = None
    for chunk in calling.stream("go"):
        merged = chunk if merged is None else merged + chunk
    assert merged.tool_calls[0]["args"]["city"] == "Bern"
    assert merged.tool_calls[0]["id"]
    assert model(url, use_responses_api=True).invoke("go").text == TEXT


main()
