"""Fields that several endpoints share."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sgrt.server.wire.base import JsonObject, Refused, Texts, TokenIds, Wire


class StreamOptions(Wire):
    """What a stream carries besides text."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class JsonSchemaFormat(Wire):
    """The inside of `response_format: json_schema`."""

    name: str | None = None
    description: str | None = None
    schema_: Annotated[JsonObject | bool | None, Field(alias="schema")] = None
    strict: bool | None = None


class ResponseFormat(Wire):
    """What shape the answer must have."""

    refused: ClassVar[Refused] = dict.fromkeys(("schema", "grammar", "pattern", "regex", "value"), (None,))
    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: JsonSchemaFormat | None = None
    format: JsonObject | None = None
    structures: Annotated[list[JsonObject], Field(fail_fast=True)] | None = None
    triggers: Texts | None = None


class StructuredOutputs(Wire):
    """One constraint on the answer; exactly one kind may be given."""

    json_: Annotated[JsonObject | str | bool | None, Field(alias="json")] = None
    regex: str | None = None
    choice: Texts | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: JsonObject | str | None = None
    disable_any_whitespace: bool | None = None
    whitespace_pattern: str | None = None
    disable_additional_properties: bool | None = None


class DrawingFields(Wire):
    """How tokens are drawn and when they end; the names are OpenAI's and vLLM's."""

    model: str | None = None
    temperature: Annotated[float | None, Field(ge=0, le=100)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    top_k: Annotated[int | None, Field(ge=-1)] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    presence_penalty: Annotated[float | None, Field(ge=-2, le=2)] = None
    frequency_penalty: Annotated[float | None, Field(ge=-2, le=2)] = None
    repetition_penalty: Annotated[float | None, Field(gt=0, le=100)] = None
    logit_bias: dict[str, float] | None = None
    seed: Annotated[int | None, Field(ge=-(2**63), lt=2**63)] = None
    stop: str | Texts | None = None
    stop_token_ids: TokenIds | None = None
    include_stop_str_in_output: bool | None = None
    allowed_token_ids: TokenIds | None = None
    bad_words: Texts | None = None
    skip_special_tokens: bool | None = None
    ignore_eos: bool | None = None
    min_tokens: Annotated[int | None, Field(ge=0)] = None
    stream: bool | None = None
    priority: Annotated[int | None, Field(ge=-(2**31), lt=2**31)] = None
    deadline_s: Annotated[float | None, Field(gt=0, le=86400)] = None
    cache_salt: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    session_id: Annotated[str | None, Field(max_length=128)] = None
    structured_outputs: StructuredOutputs | None = None


class SamplingFields(DrawingFields):
    """The fields of chat and text completions."""

    n: Annotated[int | None, Field(ge=1)] = None
    prompt_logprobs: Annotated[int | None, Field(ge=0)] = None
    max_tokens: Annotated[int | None, Field(ge=0)] = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    response_format: ResponseFormat | None = None
