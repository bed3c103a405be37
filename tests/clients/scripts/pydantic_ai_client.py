"""pydantic-ai, which checks every field of every answer. Arguments as for openai_client.py."""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import asyncio
import sys

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

TEXT = "héllo wörld 🌍"


class Answer(BaseModel):
    why: str
    score: int


def model(url: str) -> OpenAIChatModel:
    return OpenAIChatModel("stub", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))


async def main() -> None:
    url, calling_url = sys.argv[1:3]
    settings = {"temperature": 0.0, "max_tokens": 200}
    assert (await Agent(model(url), model_settings=settings).run("go")).output == TEXT
    async with Agent(model(url), model_settings=settings).run_stream("go") as stream:
        assert "".join([piece async for piece in stream.stream_text(delta=True)]) == TEXT
    for kind in (Answer, NativeOutput(Answer)):
        made = await Agent(model(url), output_type=kind, model_settings=settings).run("go")
        assert isinstance(made.output, Answer)
        assert made.usage().input_tokens > 0 if callable(made.usage) else made.usage.input_tokens > 0
    seen = []
    agent = Agent(model(calling_url), model_settings=settings)

    @agent.tool_plain
    def look_up(city: str, days: int) -> str:
        """Look up the weather."""
        seen.append((city, days))
        return "sunny"

    try:
        await agent.run("go", usage_limits=UsageLimits(request_limit=2))  # it would call for ever
    except UsageLimitExceeded:
        assert seen[0] == ("Bern", 3)
    else:
        raise AssertionError("the tool is called again and again")


asyncio.run(main())
