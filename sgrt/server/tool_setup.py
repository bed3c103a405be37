"""Which tool and reasoning format a server speaks, and what a request's tools demand of an output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from sgrt.errors import InvalidRequest
from sgrt.server.config import Limits, ServerConfig
from sgrt.server.errors import bad_request
from sgrt.server.json_body import JsonValue
from sgrt.server.marks import Marks
from sgrt.server.structured import schema_text
from sgrt.server.wire.chat import ChatRequest, NamedToolChoice
from sgrt_frontend.backend import Backend
from sgrt_grammars.tools.format import Format, ToolFormat
from sgrt_grammars.tools.formats import FORMATS, HERMES
from sgrt_grammars.tools.tool import Tool

# A mark that only one family's vocabulary has as a token of its own.
_TELLTALES = (
    ("<|tool_calls_section_begin|>", "kimi_k2"),
    ("<|tool_call>", "gemma"),
    ("<arg_key>", "glm"),
    ("[TOOL_CALLS]", "mistral"),
    ("<|python_start|>", "pythonic"),
    ("<|tool_call_start|>", "pythonic"),
    ("<|python_tag|>", "llama_json"),
    ("<|constrain|>", "harmony"),
    ("<tool_call>", "hermes"),
)


class ToolMode(Enum):
    """What a request wants of its tools."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSetup:
    """The tools a request offers and how they may be called."""

    mode: ToolMode
    tools: tuple[Tool, ...] = ()
    parallel: bool = True

    @property
    def is_forced(self) -> bool:
        """Whether the output must be a call."""
        return self.mode in (ToolMode.REQUIRED, ToolMode.NAMED)


def choose_format(backend: Backend, config: ServerConfig, template: str) -> Format | None:
    """The format of a server: the one it was told, or the one that template and vocabulary show.

    Raises:
        InvalidRequest: a format is named that does not exist.
    """
    if config.tool_format == "none":
        return None
    if config.tool_format != "auto":
        if config.tool_format not in FORMATS:
            raise InvalidRequest(
                f"tool_format: {config.tool_format!r} is not one of auto, none, {', '.join(FORMATS)}",
                param="tool_format",
            )
        return FORMATS[config.tool_format]
    return _by_template(template) or _by_vocabulary(backend) or HERMES


def has_reasoning(form: Format | None, config: ServerConfig, backend: Backend) -> bool:
    """Whether thoughts are told apart from answers.

    By itself that happens only where the marks are tokens of the vocabulary: elsewhere they are ordinary text.
    """
    if form is None or config.reasoning_format == "none":
        return False
    if not isinstance(form, ToolFormat):
        return True
    if form.reasoning is None:
        return False
    return config.reasoning_format != "auto" or len(backend.encode(form.reasoning.begin, special=True)) == 1


def read_tools(request: ChatRequest, limits: Limits) -> ToolSetup:
    """The tools of a request.

    Raises:
        ApiError: too many tools, two of one name, a choice without tools or of a tool that is not offered.
    """
    choice = request.tool_choice
    if not request.tools:
        if choice not in (None, "none"):
            raise bad_request("tool_choice needs tools", param="tool_choice")
        return ToolSetup(mode=ToolMode.NONE)
    if len(request.tools) > limits.tools:
        raise bad_request(f"tools: at most {limits.tools} are taken", param="tools")
    tools: list[Tool] = []
    for index, tool in enumerate(request.tools):
        param = f"tools[{index}].function.parameters"
        parameters = tool.function.parameters or {"type": "object", "properties": {}}
        text = schema_text(parameters, limits=limits, param=param)
        name = tool.function.name
        tools.append(Tool(name=name, parameters=text, description=tool.function.description or ""))
        if any(other.name == name for other in tools[:-1]):
            raise bad_request(f"tools: {name!r} is offered twice", param=f"tools[{index}].function.name")
    parallel = request.parallel_tool_calls is not False
    if isinstance(choice, NamedToolChoice):
        return _named(choice.function.name, tools)
    mode = ToolMode.AUTO if choice is None else ToolMode(choice)
    return ToolSetup(mode=mode, tools=tuple(tools), parallel=parallel)


def template_tools(request: ChatRequest) -> list[Mapping[str, JsonValue]]:
    """The tools as chat templates expect them."""
    tools: list[Mapping[str, JsonValue]] = []
    for tool in request.tools or ():
        tools.append(json.loads(json.dumps(tool.model_dump(exclude_none=True), ensure_ascii=False)))
    return tools


def is_thinking(marks: Marks, form: Format | None, prompt: tuple[int, ...]) -> bool:
    """Whether a prompt ends inside the model's thoughts: they were opened last and not ended."""
    if not isinstance(form, ToolFormat) or form.reasoning is None:
        return False
    opened = marks.last_position(prompt, form.reasoning.begin)
    return opened >= 0 and opened > marks.last_position(prompt, form.reasoning.end)


def _named(name: str, tools: list[Tool]) -> ToolSetup:
    found = [tool for tool in tools if tool.name == name]
    if not found:
        raise bad_request(f"tool_choice: {name!r} is not among the tools", param="tool_choice")
    return ToolSetup(mode=ToolMode.NAMED, tools=tuple(found), parallel=False)


def _by_template(template: str) -> Format | None:
    """The format most of whose marks a template shows; ties go to the one with more marks."""
    best: Format | None = None
    for form in FORMATS.values():
        shows_all = all(mark in template for mark in form.template_marks)
        if shows_all and (best is None or len(form.template_marks) >= len(best.template_marks)):
            best = form
    return best if template else None


def _by_vocabulary(backend: Backend) -> Format | None:
    for mark, name in _TELLTALES:
        if len(backend.encode(mark, special=True)) == 1:
            return FORMATS[name]
    return None


__all__ = [
    "ToolMode", "ToolSetup", "choose_format", "has_reasoning", "is_thinking", "read_tools",
    "template_tools",
]  # fmt: skip
