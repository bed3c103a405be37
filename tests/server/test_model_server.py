"""The server over the default model, at a socket: text, shapes, tools, and programs through HttpBackend."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest
from server_client import listening

from sgrt.backend.http import HttpBackend
from sgrt.checkpoint.location import resolve
from sgrt.engine.engine import Engine
from sgrt.errors import ModelNotFound
from sgrt.server.app import create_app
from sgrt.server.config import ServerConfig
from sgrt_frontend.call import Call, Chunk, SamplingParams
from sgrt_grammars.constraint import JsonSchema

pytestmark = pytest.mark.model

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "save_person", "parameters": SCHEMA}}


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Engine, str]]:
    try:
        resolve("smollm2")
    except ModelNotFound as missing:
        pytest.skip(str(missing))
    with (
        Engine("smollm2", num_pages=128, threads=1) as engine,
        listening(create_app(engine, ServerConfig(model_names=("smollm2",)))) as url,
    ):
        yield engine, url


def chat(url: str, **fields: object) -> Any:  # noqa: ANN401 (parsed JSON)
    body = {"messages": [{"role": "user", "content": "Make up a person."}], "temperature": 0, **fields}
    response = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120)
    assert response.status_code == 200, response.text
    return response.json()


def test_the_default_model_answers_over_http(served: tuple[Engine, str]) -> None:
    _, url = served
    body = chat(url, max_tokens=12)
    assert body["choices"][0]["message"]["content"].strip()
    again = chat(url, max_tokens=12)
    assert again["choices"] == body["choices"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_shapes_and_tools_hold_on_the_default_model(served: tuple[Engine, str]) -> None:
    _, url = served
    wanted = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
    shaped = chat(url, max_tokens=80, response_format=wanted)
    jsonschema.validate(json.loads(shaped["choices"][0]["message"]["content"]), SCHEMA)
    called = chat(url, max_tokens=120, tools=[TOOL], tool_choice="required", parallel_tool_calls=False)
    (call,) = called["choices"][0]["message"]["tool_calls"]
    jsonschema.validate(json.loads(call["function"]["arguments"]), SCHEMA)


def test_a_program_over_http_gets_the_engines_tokens(served: tuple[Engine, str]) -> None:
    engine, url = served
    call = Call(
        prompt=engine.encode("A person as JSON: "),
        sampling=SamplingParams(max_tokens=60),
        constraint=JsonSchema(text=json.dumps(SCHEMA)),
    )

    async def tokens(remote: HttpBackend) -> list[int]:
        chunks: list[Chunk] = [chunk async for chunk in remote.generate(call)]
        return [token for chunk in chunks for token in chunk.token_ids]

    with HttpBackend(url) as remote:
        assert remote.encode("A person as JSON: ") == call.prompt
        assert tuple(asyncio.run(tokens(remote))) == engine.complete(call)[0].token_ids
