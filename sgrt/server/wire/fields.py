"""Fields that several endpoints share, and what happens to fields nobody here knows.

A field that would change the output and is not implemented is refused by name. Fields that only label,
bill or store are taken and ignored; `IGNORED` lists them and the docs repeat the list. Whatever else comes
is ignored too, and named in the response header `x-sgrt-ignored-fields`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from sgrt.server.errors import bad_request
from sgrt.server.json_body import JsonValue

JsonObject = dict[str, object]
# One fault is enough: as many errors as a body has values would take a second to build.
Texts = Annotated[list[str], Field(fail_fast=True)]
TokenIds = Annotated[list[int], Field(fail_fast=True)]

IGNORED = frozenset(
    {
        "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
        "prompt_cache_retention", "prompt_cache_options", "prediction", "verbosity", "moderation",
        "include_reasoning", "request_id", "rid", "stream_interval", "cache_prompt", "id_slot",
        "timings_per_token", "return_progress", "sse_ping_interval", "extra_key", "model_kwargs", "best_of",
        "return_cached_tokens_details", "return_meta_info", "spaces_between_special_tokens", "lora_path",
        "client_metadata", "background", "truncation", "max_tool_calls", "include", "text_format",
    }
)  # fmt: skip

# Fields that change what comes back, with the values that change nothing. Some routes have a few of them.
_REFUSED: dict[str, tuple[JsonValue, ...]] = {
    "allowed_token_ids": (None,),
    "audio": (None,),
    "chat_template": (None,),
    "custom_logit_processor": (None,),
    "custom_params": (None,),
    "documents": (None, []),
    "dry_multiplier": (None, 0, 0.0),
    "ebnf": (None,),
    "echo": (None, False),
    "functions": (None, []),
    "function_call": (None, "none"),
    "grammar": (None, ""),
    "grammar_lazy": (None, False),
    "grammar_triggers": (None, []),
    "input_ids": (None,),
    "json_schema": (None,),
    "length_penalty": (None, 1, 1.0),
    "logit_processors": (None, []),
    "logits_processors": (None, []),
    "lora_request": (None,),
    "media_io_kwargs": (None, {}),
    "mirostat": (None, 0),
    "modalities": (None, ["text"]),
    "mm_processor_kwargs": (None, {}),
    "no_stop_trim": (None, False),
    "prompt_embeds": (None,),
    "prompt_logprobs": (None,),
    "regex": (None,),
    "repetition_detection": (None,),
    "samplers": (None, []),
    "separate_reasoning": (None, True),
    "stream_reasoning": (None, True),
    "skip_special_tokens": (None, True),
    "stop_regex": (None, "", []),
    "suffix": (None, ""),
    "thinking_token_budget": (None,),
    "truncate_prompt_tokens": (None,),
    "typical_p": (None, 1, 1.0),
    "use_beam_search": (None, False),
    "web_search_options": (None,),
    "xtc_probability": (None, 0, 0.0),
}
_REFUSED_PREFIXES = ("guided_", "structured_", "grammar_", "response_format_", "json_schema_")
_HINTS = {
    "grammar": "use structured_outputs.grammar",
    "ebnf": "use structured_outputs.grammar",
    "regex": "use structured_outputs.regex",
    "json_schema": "use response_format",
    "functions": "use tools",
    "function_call": "use tool_choice",
    "chat_template": "templates are the model's own and never come from a request",
    "input_ids": "use /generate",
}


class Wire(BaseModel):
    """A request body: strict types, unknown fields kept so that they can be judged."""

    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=())

    def judge_unknown_fields(self) -> tuple[str, ...]:
        """The names of fields that were ignored.

        Raises:
            ApiError: a field asks for something that would be silently lost.
        """
        ignored: list[str] = []
        for name, value in (self.model_extra or {}).items():
            if name in _REFUSED:
                if not any(value == harmless for harmless in _REFUSED[name]):
                    hint = f"; {_HINTS[name]}" if name in _HINTS else ""
                    raise bad_request(f"{name} is not supported{hint}", param=name, code="unsupported_field")
            elif name.startswith(_REFUSED_PREFIXES):
                raise bad_request(
                    f"{name} is not a constraint field here; use response_format or structured_outputs",
                    param=name,
                    code="unsupported_field",
                )
            elif name not in IGNORED:
                ignored.append(name)
        return tuple(ignored)


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


class SamplingFields(Wire):
    """How tokens are drawn and when they end; the names are OpenAI's and vLLM's."""

    model: str | None = None
    n: Annotated[int | None, Field(ge=1)] = None
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
    prompt_logprobs: Annotated[int | None, Field(ge=0)] = None
    ignore_eos: bool | None = None
    max_tokens: Annotated[int | None, Field(ge=0)] = None
    min_tokens: Annotated[int | None, Field(ge=0)] = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    priority: Annotated[int | None, Field(ge=-(2**31), lt=2**31)] = None
    deadline_s: Annotated[float | None, Field(gt=0, le=86400)] = None
    cache_salt: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    session_id: Annotated[str | None, Field(max_length=128)] = None
    return_token_ids: bool | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
