"""The official library: whole answers, streams, parsed answers, tools, responses, errors, async.

Run by test_clients.py in an environment of its own; arguments: the URL of a server that wants to say
"héllo wörld 🌍", and of one that wants to call the tool `look_up`.
"""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import asyncio
import json
import sys

import openai
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

TEXT = "héllo wörld 🌍"
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": PARAMETERS, "strict": True}}
ASK = [{"role": "user", "content": "go"}]


class Answer(BaseModel):
    why: str
    score: int


def client_of(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)


def text(client: OpenAI) -> None:
    made = client.chat.completions.create(model="stub", messages=ASK, temperature=0)
    assert made.choices[0].message.content == TEXT
    assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens
    assert made.usage.prompt_tokens_details.cached_tokens >= 0
    again = client.chat.completions.create(model="stub", messages=ASK, temperature=0)
    assert again.usage.prompt_tokens_details.cached_tokens > 0
    assert [model.id for model in client.models.list()] == ["stub"]
    assert client.models.retrieve("stub").id == "stub"
    assert (
        client.completions.create(model="stub", prompt="go", temperature=0, max_tokens=40).choices[0].text
        == TEXT
    )


def streams(client: OpenAI) -> None:
    pieces, usage, finish = [], None, []
    options = {"include_usage": True}
    for chunk in client.chat.completions.create(
        model="stub", messages=ASK, stream=True, stream_options=options, temperature=0
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            finish += [choice.finish_reason] if choice.finish_reason else []
    assert "".join(pieces) == TEXT
    assert (finish, usage.completion_tokens > 0) == (["stop"], True)
    with client.chat.completions.stream(model="stub", messages=ASK, temperature=0) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.content == TEXT


def parsed(client: OpenAI) -> None:
    made = client.chat.completions.parse(
        model="stub", messages=ASK, response_format=Answer, temperature=0, max_tokens=200
    )
    assert isinstance(made.choices[0].message.parsed, Answer)
    with client.chat.completions.stream(
        model="stub", messages=ASK, response_format=Answer, temperature=0, max_tokens=200
    ) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Answer)
    logprobs = client.chat.completions.create(
        model="stub", messages=ASK, logprobs=True, top_logprobs=2, temperature=0
    )
    entries = logprobs.choices[0].logprobs.content
    assert bytes(byte for entry in entries for byte in entry.bytes).decode() == TEXT


def tools(client: OpenAI, calling: OpenAI) -> None:
    for choice in ("required", {"type": "function", "function": {"name": "look_up"}}):
        made = client.chat.completions.create(
            model="stub", messages=ASK, tools=[TOOL], tool_choice=choice, temperature=0, max_tokens=200
        )
        call = made.choices[0].message.tool_calls[0]
        assert set(json.loads(call.function.arguments)) == {"city", "days"}
    made = calling.chat.completions.create(
        model="stub", messages=ASK, tools=[TOOL], temperature=0, max_tokens=200
    )
    call = made.choices[0].message.tool_calls[0]
    assert json.loads(call.function.arguments)["city"] == "Bern"
    assert made.choices[0].finish_reason == "tool_calls"
    with calling.chat.completions.stream(
        model="stub", messages=ASK, tools=[TOOL], temperature=0, max_tokens=200
    ) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion().choices[0].message
    assert json.loads(final.tool_calls[0].function.arguments)["city"] == "Bern"
    history = [
        *ASK,
        made.choices[0].message,
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    assert client.chat.completions.create(model="stub", messages=history, tools=[TOOL], tool_choice="none")


def responses(client: OpenAI, calling: OpenAI) -> None:
    made = client.responses.create(model="stub", input="go", temperature=0)
    assert made.output_text == TEXT
    assert client.responses.retrieve(made.id).output_text == TEXT
    with client.responses.stream(model="stub", input="go", temperature=0) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert "".join(deltas) == TEXT
        assert stream.get_final_response().output_text == TEXT
    shaped = client.responses.parse(
        model="stub", input="go", text_format=Answer, temperature=0, max_output_tokens=200
    )
    assert isinstance(shaped.output_parsed, Answer)
    tool = {"type": "function", "name": "look_up", "parameters": PARAMETERS, "strict": True}
    called = calling.responses.create(
        model="stub", input="go", tools=[tool], temperature=0, max_output_tokens=200
    )
    (item,) = [item for item in called.output if item.type == "function_call"]
    assert json.loads(item.arguments)["city"] == "Bern"
    follow = client.responses.create(
        model="stub",
        previous_response_id=made.id,
        input=[{"role": "user", "content": "and?"}],
        temperature=0,
    )
    assert follow.output_text == TEXT


def errors(client: OpenAI, url: str) -> None:
    for fields, kind in (
        ({"model": "nope"}, openai.NotFoundError),
        ({"temperature": -1}, openai.BadRequestError),
        ({"extra_body": {"guided_json": {}}}, openai.BadRequestError),
        ({"messages": [{"role": "user", "content": "x" * 100_000}]}, openai.BadRequestError),
    ):
        try:
            client.chat.completions.create(**{"model": "stub", "messages": ASK, **fields})
        except kind as error:
            assert error.body["message"], "the message must reach the user"
        else:
            raise AssertionError(f"{fields} was taken")


async def asynchronous(url: str) -> None:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        made = await asyncio.gather(
            *(client.chat.completions.create(model="stub", messages=ASK, temperature=0) for _ in range(8))
        )
        assert {item.choices[0].message.content for item in made} == {TEXT}
        stream = await client.chat.completions.create(model="stub", messages=ASK, stream=True, temperature=0)
        async for _ in stream:
            break
        await stream.close()


def main() -> None:
    url, calling_url = sys.argv[1:3]
    client, calling = client_of(url), client_of(calling_url)
    text(client)
    streams(client)
    parsed(client)
    tools(client, calling)
    responses(client, calling)
    errors(client, url)
    asyncio.run(asynchronous(url))


main()
