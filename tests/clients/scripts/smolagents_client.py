"""smolagents: its model, whole and streamed, and an agent that calls a tool. Arguments as for openai_client.py."""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import json
import sys

from smolagents import OpenAIServerModel, ToolCallingAgent, tool
from smolagents.models import ChatMessage, MessageRole

TEXT = "héllo wörld 🌍"
MESSAGES = [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": "go"}])]
FORMAT = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"score": {"type": "integer"}},
            "required": ["score"],
            "additionalProperties": False,
        },
    },
}


@tool
def look_up(city: str, days: int) -> str:
    """Look up the weather.

    Args:
        city: where
        days: how long
    """
    return f"{city}: sunny for {days} days"


def model(url: str) -> OpenAIServerModel:
    return OpenAIServerModel("stub", api_base=f"{url}/v1", api_key="none", temperature=0, max_tokens=200)


def main() -> None:
    url, calling_url = sys.argv[1:3]
    said = model(url).generate(MESSAGES)
    assert said.content == TEXT
    assert said.token_usage.input_tokens > 0
    deltas = list(model(url).generate_stream(MESSAGES))
    assert "".join(delta.content or "" for delta in deltas) == TEXT
    assert any(delta.token_usage and delta.token_usage.output_tokens for delta in deltas)
    assert isinstance(json.loads(model(url).generate(MESSAGES, response_format=FORMAT).content)["score"], int)
    (call,) = model(calling_url).generate(MESSAGES, tools_to_call_from=[look_up]).tool_calls
    assert call.function.name == "look_up"
    for is_streamed in (False, True):
        agent = ToolCallingAgent(
            tools=[look_up],
            model=model(calling_url),
            max_steps=1,
            stream_outputs=is_streamed,
            verbosity_level=0,
        )
        steps = [str(step) for step in agent.run("go", stream=True)]
        assert any("Bern: sunny for 3 days" in step for step in steps)


main()
