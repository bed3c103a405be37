"""Writes tool descriptions and past calls as text, for models whose chat template knows nothing of tools."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sgrt_grammars.tools.format import ChannelFormat, Format
from sgrt_grammars.tools.parts import (
    BareObject,
    JsonArguments,
    JsonCall,
    Mark,
    Name,
    Part,
    PythonArguments,
    Space,
    TaggedArguments,
    Word,
)
from sgrt_grammars.tools.tool import Call, Tool


def described_tools(form: Format, tools: Sequence[Tool]) -> str:
    """What to tell a model about its tools, with an example of a call in its format."""
    lines = ["You may call these tools:", ""]
    for tool in tools:
        description = {
            "name": tool.name,
            "description": tool.description,
            "parameters": json.loads(tool.parameters),
        }
        lines.append(json.dumps(description, ensure_ascii=False))
    example = written_calls(form, [Call(name="name_of_the_tool", arguments='{"parameter": "value"}')])
    return "\n".join([*lines, "", "To call a tool, write exactly this and nothing after it:", "", example])


def written_calls(form: Format, calls: Sequence[Call]) -> str:
    """Past calls as the model would have written them."""
    if isinstance(form, ChannelFormat):
        return "".join(_channel_call(form, call) for call in calls)
    first = form.calls[0]
    if first.end:
        body = first.separator.join(first.call_begin + _parts(first.parts, call) for call in calls)
        return first.begin + first.opening + body + first.end
    begin = "" if first.is_begin_part else first.begin
    return "\n".join(begin + _parts(first.parts, call) for call in calls)


def _parts(parts: Sequence[Part], call: Call) -> str:
    return "".join(_part(part, call) for part in parts)


def _part(part: Part, call: Call) -> str:
    if isinstance(part, Mark):
        return part.text if part.is_written else ""
    if isinstance(part, Space | Word):
        return part.written
    if isinstance(part, Name):
        return part.prefix + call.name + (f"{part.counter}0" if part.counter else "")
    if isinstance(part, JsonArguments):
        return call.arguments
    if isinstance(part, JsonCall):
        return (
            f'{{"{part.name_keys[0]}": {json.dumps(call.name)}, "{part.argument_keys[0]}": {call.arguments}}}'
        )
    return _notation(part, json.loads(call.arguments))


def _notation(part: TaggedArguments | PythonArguments | BareObject, arguments: dict[str, object]) -> str:
    if isinstance(part, PythonArguments):
        return "(" + ", ".join(f"{name}={value!r}" for name, value in arguments.items()) + ")"
    if isinstance(part, BareObject):
        return _bare(arguments, part.quote)
    return "".join(_tag(part, name, value) for name, value in arguments.items())


def _tag(part: TaggedArguments, name: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if part.attribute is None:
        middle = "".join(part.between)
    else:
        kind = part.attribute.string if isinstance(value, str) else part.attribute.other or "object"
        middle = f"{part.attribute.before}{kind}{part.attribute.after}"
    return f"{part.before}{name}{middle}{part.padding}{text}{part.padding}{part.after}{part.separator}"


def _bare(value: object, quote: str) -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_bare(item, quote)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_bare(item, quote) for item in value) + "]"
    return json.dumps(value)


def _channel_call(form: ChannelFormat, call: Call) -> str:
    return (
        f"{form.channel}{form.content_channels[1]} {form.recipient}{form.function_prefix}{call.name} "
        f"{form.constrain}json{form.message}{call.arguments}"
    )
