"""openai-agents, over both of its models. Arguments as for openai_client.py."""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import asyncio
import sys

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

TEXT = "héllo wörld 🌍"


class Answer(BaseModel):
    why: str
    score: int


@function_tool
def look_up(city: str, days: int) -> str:
    """Look up the weather."""
    return f"{city}: sunny for {days} days"


def model_of(kind: type, url: str) -> object:
    return kind("stub", AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))


async def main() -> None:
    set_tracing_disabled(True)
    url, calling_url = sys.argv[1:3]
    settings = ModelSettings(temperature=0, max_tokens=200)
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        plain = Agent(name="plain", model=model_of(kind, url), model_settings=settings)
        assert (await Runner.run(plain, "go")).final_output == TEXT
        streamed = Runner.run_streamed(plain, "go")
        async for _ in streamed.stream_events():
            pass
        assert streamed.final_output == TEXT
        shaped = Agent(name="shaped", model=model_of(kind, url), model_settings=settings, output_type=Answer)
        assert isinstance((await Runner.run(shaped, "go")).final_output, Answer)
        calling = Agent(
            name="calling",
            model=model_of(kind, calling_url),
            model_settings=settings,
            tools=[look_up],
            tool_use_behavior="stop_on_first_tool",
        )
        assert (await Runner.run(calling, "go")).final_output == "Bern: sunny for 3 days"


asyncio.run(main())
