"""Fields that a request has and its route does not know: refused, taken and ignored, or named in a header.

A field that would change the output and is not implemented is refused by name, wherever in the body it stands. Fields
that only label, bill or store are taken and ignored; `IGNORED` lists them and the docs repeat the list. Whatever else
comes is ignored too, and named in the response header `x-sgrt-ignored-fields`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sgrt.server.errors import ApiError, bad_request
from sgrt.server.wire.base import Refused, Wire

IGNORED = frozenset(
    {
        "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
        "prompt_cache_retention", "prompt_cache_options", "prediction", "verbosity", "moderation",
        "request_id", "rid", "stream_interval", "cache_prompt", "id_slot",
        "timings_per_token", "return_progress", "sse_ping_interval", "extra_key",
        "return_cached_tokens_details", "return_meta_info",
        "client_metadata", "background", "truncation", "include", "text_format",
    }
)  # fmt: skip

# Fields that change what comes back, with the values that change nothing. Some routes have a few of them.
_REFUSED: Refused = {
    "add_generation_prompt": (None, True),
    "allowed_token_ids": (None,),
    "audio": (None,),
    "bad_words": (None, []),
    "best_of": (None, 1),
    "chat_template": (None,),
    "chat_template_kwargs": (None, {}),
    "continue_final_message": (None, False),
    "conversation": (None,),
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
    "include_reasoning": (None, True),
    "input": (None,),
    "input_ids": (None,),
    "instructions": (None, ""),
    "json_schema": (None,),
    "length_penalty": (None, 1, 1.0),
    "logit_processors": (None, []),
    "logits_processors": (None, []),
    "logprobs": (None, False),
    "lora_path": (None, ""),
    "lora_request": (None,),
    "max_completion_tokens": (None,),
    "max_output_tokens": (None,),
    "max_tokens": (None,),
    "max_tool_calls": (None,),
    "media_io_kwargs": (None, {}),
    "messages": (None,),
    "mirostat": (None, 0),
    "modalities": (None, ["text"]),
    "mm_processor_kwargs": (None, {}),
    "model_kwargs": (None, {}),
    "n": (None, 1),
    "no_stop_trim": (None, False),
    "previous_response_id": (None,),
    "prompt": (None,),
    "prompt_embeds": (None,),
    "prompt_logprobs": (None,),
    "reasoning": (None, {}),
    "reasoning_effort": (None,),
    "regex": (None,),
    "repetition_detection": (None,),
    "response_format": (None, {"type": "text"}),
    "return_token_ids": (None, False),
    "samplers": (None, []),
    "separate_reasoning": (None, True),
    "spaces_between_special_tokens": (None, True),
    "stream_reasoning": (None, True),
    "skip_special_tokens": (None, True),
    "stop_regex": (None, "", []),
    "suffix": (None, ""),
    "text": (None, {}),
    "thinking_token_budget": (None,),
    "tool_choice": (None, "none", "auto"),
    "tools": (None, []),
    "top_logprobs": (None, 0),
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
    "max_completion_tokens": "use the limit that this route has",
    "max_output_tokens": "use the limit that this route has",
    "max_tokens": "use the limit that this route has",
    "response_format": "use text.format",
}


def judge_unknown_fields(body: Wire) -> tuple[str, ...]:
    """The dotted names of fields that were ignored, each once, without places in lists.

    Raises:
        ApiError: a field asks for something that would be silently lost.
    """
    ignored: dict[str, None] = {}
    for name, value in (body.model_extra or {}).items():
        if name.startswith(_REFUSED_PREFIXES) and name not in _REFUSED:
            raise bad_request(
                f"{name} is not a constraint field here; use response_format or structured_outputs",
                param=name,
                code="unsupported_field",
            )
        if name not in IGNORED and not _is_refusable(_REFUSED, name, value, name):
            ignored[name] = None
    for part, path, shown in _parts(body):
        for name, value in (part.model_extra or {}).items():
            if not _is_refusable(part.refused, name, value, f"{path}.{name}"):
                ignored[f"{shown}.{name}"] = None
    return tuple(ignored)


def _is_refusable(refused: Refused, name: str, value: object, path: str) -> bool:
    """Whether a field is among those that are refused; here it has a value that changes nothing."""
    if name not in refused:
        return False
    if not any(value == harmless and type(value) is type(harmless) for harmless in refused[name]):
        raise _unsupported(name, path)
    return True


def _unsupported(name: str, path: str) -> ApiError:
    hint = f"; {_HINTS[name]}" if name in _HINTS and name == path else ""
    return bad_request(f"{path} is not supported{hint}", param=path, code="unsupported_field")


def _parts(body: Wire) -> Iterator[tuple[Wire, str, str]]:
    """The parts of a body at any depth, each with its path, with places in lists and without."""
    waiting: list[tuple[Wire, str, str]] = [(body, "", "")]
    while waiting:
        whole, path, shown = waiting.pop()
        dot = "." if path else ""
        for name, value in whole:
            alias = name.rstrip("_")
            if isinstance(value, Wire):
                found = (value, f"{path}{dot}{alias}", f"{shown}{dot}{alias}")
                waiting.append(found)
                yield found
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if not isinstance(item, Wire):
                        break  # a list is all parts or none
                    found = (item, f"{path}{dot}{alias}[{index}]", f"{shown}{dot}{alias}[]")
                    waiting.append(found)
                    yield found
