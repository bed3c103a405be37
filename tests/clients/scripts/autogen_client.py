"""autogen: text, streams, structured output, an agent with a tool. Arguments as for openai_client.py."""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import asyncio
import json
import sys

from autogen_core import CancellationToken
from autogen_core.models import ModelFamily, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from pydantic import BaseModel

TEXT = "héllo wörld 🌍"
MESSAGES = [UserMessage(content="go", source="user")]


class Answer(BaseModel):
    why: str
    score: int


async def look_up(city: str, days: int) -> str:
    """Look up the weather."""
    return f"{city}: sunny for {days} days"


def client(url: str) -> OpenAIChatCompletionClient:
    return OpenAIChatCompletionClient(
        model="stub",
        base_url=f"{url}/v1",
        api_key="none",
        temperature=0,
        max_tokens=200,
        max_retries=0,
        model_info={
            "vision": False,
            "function_calling": True,
            "json_output": True,
            "structured_output": True,
            "family": ModelFamily.UNKNOWN,
        },
    )


async def main() -> None:
    url, calling_url = sys.argv[1:3]
    said = await client(url).create(MESSAGES)
    assert (said.content, said.finish_reason) == (TEXT, "stop")
    assert said.usage.prompt_tokens > 0
    pieces = [piece async for piece in client(url).create_stream(MESSAGES, include_usage=True)]
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == TEXT
    assert pieces[-1].usage.completion_tokens == said.usage.completion_tokens
    shaped = await client(url).create(MESSAGES, json_output=Answer)
    assert isinstance(Answer.model_validate_json(shaped.content), Answer)
    tool = FunctionTool(look_up, description="Look up the weather.", strict=True)
    for choice in ("auto", "required", tool):
        (call,) = (await client(calling_url).create(MESSAGES, tools=[tool], tool_choice=choice)).content
        assert call.name == "look_up"
    last = [item async for item in client(calling_url).create_stream(MESSAGES, tools=[tool])][-1]
    (call,) = last.content
    assert await tool.run_json(json.loads(call.arguments), CancellationToken()) == ("Bern: sunny for 3 days")


asyncio.run(main())
