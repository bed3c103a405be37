"""litellm, which reads every stream anew: text, usage, tools, shapes, responses. Arguments as for openai_client.py."""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false, reportFunctionMemberAccess=false, reportArgumentType=false

from __future__ import annotations

import json
import sys

import litellm
from pydantic import BaseModel

TEXT = "héllo wörld 🌍"
MESSAGES = [{"role": "user", "content": "go"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}


class Answer(BaseModel):
    why: str
    score: int


def ask(url: str, *, prefix: str = "openai", **fields: object) -> object:
    return litellm.completion(
        model=f"{prefix}/stub",
        messages=fields.pop("messages", MESSAGES),
        api_base=f"{url}/v1",
        api_key="none",
        temperature=0,
        max_tokens=200,
        num_retries=0,
        **fields,
    )


def main() -> None:
    url, calling_url = sys.argv[1:3]
    for prefix in ("openai", "hosted_vllm"):
        whole = ask(url, prefix=prefix)
        assert whole.choices[0].message.content == TEXT
        assert whole.usage.prompt_tokens > 0
        chunks = list(ask(url, prefix=prefix, stream=True, stream_options={"include_usage": True}))
        rebuilt = litellm.stream_chunk_builder(chunks, messages=MESSAGES)
        assert rebuilt.choices[0].message.content == TEXT
        assert rebuilt.choices[0].finish_reason == "stop"
        assert rebuilt.usage.completion_tokens == whole.usage.completion_tokens
    shaped = ask(url, response_format=Answer)
    assert isinstance(Answer.model_validate_json(shaped.choices[0].message.content), Answer)
    for choice in ("auto", "required", {"type": "function", "function": {"name": "look_up"}}):
        (call,) = ask(calling_url, tools=[TOOL], tool_choice=choice).choices[0].message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)["city"]) == ("look_up", "Bern")
        parts = list(ask(calling_url, tools=[TOOL], tool_choice=choice, stream=True))
        (call,) = litellm.stream_chunk_builder(parts).choices[0].message.tool_calls
        assert json.loads(call.function.arguments) == {"city": "Bern", "days": 3}
    try:
        ask(url, messages=[{"role": "user", "content": "a " * 9000}])
    except litellm.ContextWindowExceededError:
        pass
    else:
        raise AssertionError("a prompt that is too long has an error of its own")
    response = litellm.responses(
        model="openai/stub", input="go", api_base=f"{url}/v1", api_key="none", temperature=0
    )
    assert response.output[-1].content[0].text == TEXT


main()
