"""The server over a whole engine: real masks, stops, limits and cache; only the model is a script."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonschema
import pytest
from engine_server import engine_serving
from scripted_engine import saying, tokenizer
from server_client import Client, events

from sgrt.engine.job import GenerateJob
from sgrt.engine.loop import EngineLoop

SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "why": {"enum": ["w"]}},
    "required": ["x", "why"],
    "additionalProperties": False,
}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up_city",
        "description": "odd \" ' < > { } | \\ \n text",
        "parameters": PARAMETERS,
    },
}
FORMATTED = {"type": "json_schema", "json_schema": {"name": "r", "schema": SCHEMA}}


def content_of(body: dict[str, Any]) -> str:
    return str(body["choices"][0]["message"]["content"])


def streamed_text(items: list[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content") or "" for item in items for choice in item["choices"])


def test_text_comes_out_as_the_model_wants_it() -> None:
    with engine_serving(saying("hello world")) as (client, _):
        body = client.chat().json()
        assert content_of(body) == "hello world"
        assert body["usage"]["completion_tokens"] > 0
        assert streamed_text(events(client.chat(stream=True))) == "hello world"


@pytest.mark.parametrize(
    ("fields", "check"),
    [
        ({"response_format": FORMATTED}, lambda text: jsonschema.validate(json.loads(text), SCHEMA)),
        ({"response_format": {"type": "json_object"}}, json.loads),
        ({"structured_outputs": {"choice": ["red", "blue"]}}, ["red", "blue"].index),
        ({"structured_outputs": {"regex": "[ab]{3}"}}, lambda text: text.strip("ab") and 1 / 0),
    ],
)
def test_what_is_asked_for_is_kept_whatever_the_model_wants(
    fields: dict[str, object], check: Callable[[str], object]
) -> None:
    with engine_serving(saying("Sure! Here is")) as (client, _):
        body = client.chat(temperature=0, max_tokens=60, **fields).json()
        check(content_of(body))
        assert body["choices"][0]["finish_reason"] == "stop"
        streamed = events(client.chat(temperature=0, max_tokens=60, stream=True, **fields))
        assert streamed_text(streamed) == content_of(body)


def test_three_outputs_under_one_schema_are_all_valid() -> None:
    with engine_serving(saying("no")) as (client, _):
        body = client.chat(n=3, temperature=1, seed=5, max_tokens=60, response_format=FORMATTED).json()
        for choice in body["choices"]:
            jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)


def test_a_budget_below_the_shortest_answer_is_refused_and_one_above_closes_in_time() -> None:
    with engine_serving(saying('{"x":11111111111111111111111111111111111')) as (client, _):
        refused = client.chat(max_tokens=3, response_format=FORMATTED)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "budget_too_small")
        assert refused.json()["error"]["param"] == "max_tokens"
        body = client.chat(max_tokens=30, temperature=0, response_format=FORMATTED).json()
        choice = body["choices"][0]
        jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "budget")


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ({"type": "strnig"}, "invalid_constraint"),
        ({"properties": {"foo": "bar"}}, "invalid_constraint"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "unsatisfiable_constraint"),
    ],
)
def test_a_bad_schema_is_its_requests_own_fault(schema: dict[str, object], code: str) -> None:
    with engine_serving(saying("hello")) as (client, _):
        wanted = {"type": "json_schema", "json_schema": {"name": "r", "schema": schema}}
        for stream in (False, True):
            response = client.chat(response_format=wanted, stream=stream)
            assert response.status_code == 400
            error = response.json()["error"]
            assert (error["param"], error["code"]) == ("response_format.json_schema.schema", code)
        assert content_of(client.chat().json()) == "hello"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look_up_city"}}])
def test_a_demanded_call_is_sound_though_the_model_would_rather_chat(choice: object) -> None:
    with engine_serving(saying("I would rather chat.")) as (client, _):
        for stream in (False, True):
            response = client.chat(
                tools=[TOOL], tool_choice=choice, temperature=0, max_tokens=90, stream=stream
            )
            assert response.status_code == 200, response.text
            calls = (
                _calls(events(response)) if stream else response.json()["choices"][0]["message"]["tool_calls"]
            )
            for call in calls:
                arguments = json.loads(call["function"]["arguments"])
                jsonschema.validate(arguments, PARAMETERS)


def test_a_call_that_the_model_begins_is_held_to_its_tool() -> None:
    text = 'Well. <tool_call>\n{"name": "look_up_city", "arguments": {"city":"Bern","days":"three"}}'
    with engine_serving(saying(text)) as (client, _):
        message = client.chat(tools=[TOOL], temperature=0, max_tokens=120).json()["choices"][0]["message"]
        assert message["content"] == "Well."
        arguments = json.loads(message["tool_calls"][0]["function"]["arguments"])
        assert arguments["city"] == "Bern"
        jsonschema.validate(arguments, PARAMETERS)


def test_without_a_call_tools_change_nothing() -> None:
    with engine_serving(saying("Nothing to look up here.")) as (client, _):
        choice = client.chat(tools=[TOOL], temperature=0, max_tokens=60).json()["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("Nothing to look up here.", "stop")


def test_a_banned_word_is_never_written_however_it_is_spelled() -> None:
    with engine_serving(saying("the horse galloped and galloped")) as (client, _):
        choice = client.complete(bad_words=["galloped"], temperature=0, max_tokens=28).json()["choices"][0]
        assert "galloped" not in choice["text"]
        assert choice["text"].startswith("the horse gallope")
        assert choice["finish_reason"] in ("length", "stop")
        short = client.complete(bad_words=["galloped"], temperature=0, max_tokens=4).json()["choices"][0]
        assert short["finish_reason"] == "length"
        for answer in (
            client.complete(bad_words=["galloped"], stop="hor", temperature=0, max_tokens=28),
            client.chat(bad_words=["galloped"], stop="hor", temperature=0, max_tokens=28),
        ):
            stopped = answer.json()["choices"][0]
            text = stopped["text"] if "text" in stopped else stopped["message"]["content"]
            assert (text, stopped["stop_reason"]) == ("the ", "hor")


def test_the_second_time_the_prompt_is_in_the_cache() -> None:
    with engine_serving(saying("hello")) as (client, _):
        prompt = "a longer prompt " * 20
        counts = [
            client.complete(prompt=prompt).json()["usage"]["prompt_tokens_details"]["cached_tokens"]
            for _ in range(2)
        ]
        assert counts[0] == 0
        assert counts[1] > 100


def test_callers_with_different_keys_share_no_prefixes() -> None:
    prompt = "a longer prompt " * 20
    with engine_serving(saying("hello"), api_keys=("one", "two")) as (client, _):
        cached = [_cached(client, key, prompt) for key in ("one", "one", "two")]
        assert cached[1] > 100
        assert (cached[0], cached[2]) == (0, 0)


def test_characters_that_take_several_tokens_arrive_whole() -> None:
    text = "őß 山川 👩‍🚀!"
    with engine_serving(saying(text)) as (client, _):
        assert content_of(client.chat(temperature=0).json()) == text
        streamed = events(client.chat(stream=True, temperature=0))
        assert streamed_text(streamed) == text
        assert "\ufffd" not in json.dumps(streamed, ensure_ascii=False)
        cut = client.chat(temperature=0, max_tokens=len(tokenizer().encode("őß 山")) - 1)
        assert cut.json()["choices"][0]["finish_reason"] == "length"


def test_log_probabilities_of_a_cut_character_are_its_true_bytes() -> None:
    with engine_serving(saying("👩")) as (client, _):
        body = client.chat(temperature=0, logprobs=True, top_logprobs=5).json()
        entries = body["choices"][0]["logprobs"]["content"]
        assert bytes(byte for entry in entries for byte in entry["bytes"]).startswith("👩".encode())
        assert all(len(entry["top_logprobs"]) == 5 for entry in entries)


def test_metrics_show_what_the_engine_did_and_name_nothing_twice() -> None:
    with engine_serving(saying("hello")) as (client, _):
        client.chat(response_format=FORMATTED, max_tokens=60)
        text = client.get("/metrics").text
        types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
        assert len(types) == len(set(types))
        for name in (
            "ttft",
            "tpot",
            "throughput",
            "gpu_utilization",
            "kv_cache_usage",
            "queue_length",
            "error_rate",
        ):
            assert name in types
        assert "sgrt:mask_seconds_total" in types
        assert "sgrt:forced_tokens_total" in types


# What dashboards of another server ask for, by its stems; counters end in `_total` there as well.
STEMS = [
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_inference_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "iteration_tokens_total",
    "num_requests_running",
    "num_requests_waiting",
    "num_requests_waiting_by_reason",
    "kv_cache_usage_perc",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "prompt_tokens_cached_total",
    "num_preemptions_total",
    "request_success_total",
    "admission_rejections_total",
    "corrupted_requests_total",
    "prompt_tokens_total",
    "generation_tokens_total",
]


def test_metrics_come_under_the_stems_that_dashboards_know() -> None:
    with engine_serving(saying("hello")) as (client, engine):
        client.chat(max_tokens=3)
        lines = client.get("/metrics").text.splitlines()
        types = {line.split()[2] for line in lines if line.startswith("# TYPE")}
        assert not [stem for stem in STEMS if f"sgrt:{stem}" not in types]
        reasons = [line for line in lines if line.startswith("sgrt:num_requests_waiting_by_reason")]
        assert reasons == [
            f'sgrt:num_requests_waiting_by_reason{{model_name="stub",reason="{reason}"}} 0'
            for reason in ("capacity", "grammar")
        ]
        steps = 'sgrt:iteration_tokens_total_count{model_name="stub"} '
        assert f"{steps}{int(engine.stats()['engine_steps_total'])}" in lines


def test_the_cache_can_be_flushed_and_the_server_says_what_it_is() -> None:
    with engine_serving(saying("hello")) as (client, _):
        client.complete(prompt="a longer prompt " * 20)
        assert client.post("/flush_cache", {}).json()["flushed_tokens"] > 0
        info = client.get("/server_info").json()
        assert info["tool_format"] == "hermes"
        assert info["engine"]["kv_cache_dtype"] == "auto"
        assert info["engine"]["kv_pages"] > 0


def _cached(client: Client, key: str, prompt: str) -> int:
    headers = {"authorization": f"Bearer {key}"}
    body = client.post("/v1/completions", {"prompt": prompt, "max_tokens": 2}, headers).json()
    return int(body["usage"]["prompt_tokens_details"]["cached_tokens"])


def _calls(items: list[dict[str, Any]]) -> Sequence[Mapping[str, Any]]:
    calls: dict[int, dict[str, Any]] = {}
    for item in items:
        for piece in item["choices"][0]["delta"].get("tool_calls", []):
            call = calls.setdefault(piece["index"], {"function": {"arguments": ""}})
            call["function"]["arguments"] += piece["function"]["arguments"]
    return [call for _, call in sorted(calls.items())]


def test_a_choice_that_a_stop_string_ended_is_not_computed_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """With tools the server looks for stop strings itself; the other choices go on to their end."""
    stops, goes_on = tokenizer().encode("s!"), tokenizer().encode("g")[0]
    was_ended = threading.Event()
    lengths: list[int] = []

    def script(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        if not output:
            return {stops[0]: 30.0, goes_on: 30.0}  # the seeds of the choices decide
        if output[0] != stops[0]:
            return {goes_on: 30.0}
        lengths.append(len(output))
        assert len(output) < 4 or was_ended.wait(20), "nobody ended the choice"
        return {stops[1]: 30.0}

    original = EngineLoop.cancel_output

    def cancel_output(self: EngineLoop, job: GenerateJob, index: int) -> None:
        original(self, job, index)
        was_ended.set()

    monkeypatch.setattr(EngineLoop, "cancel_output", cancel_output)
    with engine_serving(script) as (client, _):
        fields = {"tools": [TOOL], "stop": ["!"], "n": 6, "seed": 3, "temperature": 1.0, "max_tokens": 40}
        choices = client.chat(**fields).json()["choices"]
        texts = {choice["message"]["content"] for choice in choices}
        assert texts == {"s", "g" * 40}
        assert max(lengths) < 40
        metrics = client.get("/metrics").text
    assert re.search(r'finished_reason="stop_string"\S* [1-5]\n', metrics)
    assert not re.search(r'finished_reason="cancelled"', metrics)
