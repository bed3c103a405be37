"""The grammar of a format: text in which every call is a sound call of one of the tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sgrt_grammars.constraint import (
    AnyText,
    Constraint,
    JsonSchema,
    OneOf,
    Regex,
    Repeat,
    Text,
    Token,
)
from sgrt_grammars.constraint import Sequence as InSequence
from sgrt_grammars.tools.bare_grammar import bare_object
from sgrt_grammars.tools.format import CallFormat, ChannelFormat, Format, ReasoningFormat, ToolFormat
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
)
from sgrt_grammars.tools.tagged_grammar import python_arguments, tagged_arguments
from sgrt_grammars.tools.tool import Tool

Spell = Callable[[str], tuple[Constraint, ...]]
"""How a fixed text is spelled for one vocabulary: runs of text and special tokens."""

_SPACES = Regex(pattern=r"[ \n]{0,2}")


def as_text(text: str) -> tuple[Constraint, ...]:
    """The Spell of a vocabulary in which no mark is a special token."""
    return (Text(text=text),) if text else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What an output has to hold.

    `required`: at least one call and nothing but calls. `parallel`: more than one call is allowed. `answer`
    is what text beside calls must look like (None: anything). `thinking` says whether the prompt ended
    inside the model's thoughts.
    """

    required: bool = False
    parallel: bool = True
    answer: Constraint | None = None
    thinking: bool = False


def output_grammar(form: Format, tools: Sequence[Tool], demand: Demand, spell: Spell) -> Constraint:
    """The constraint on a whole output.

    Raises:
        UnsupportedConstraint: a tool's schema cannot be written in this format.
    """
    if isinstance(form, ChannelFormat):
        return _channel_output(form, tools, demand, spell)
    body = _body(form, tools, demand, spell)
    if form.reasoning is not None and demand.thinking:
        return _joined(*_thoughts(form.reasoning, spell), body)
    return body


def answer_after_thoughts(form: Format, answer: Constraint, spell: Spell) -> Constraint:
    """`answer`, after the thoughts that the prompt opened."""
    if isinstance(form, ChannelFormat) or form.reasoning is None:
        return answer
    return _joined(*_thoughts(form.reasoning, spell), answer)


def _thoughts(form: ReasoningFormat, spell: Spell) -> tuple[Constraint, ...]:
    return (_free(form.end, spell), *spell(form.end), _SPACES)


def _body(form: ToolFormat, tools: Sequence[Tool], demand: Demand, spell: Spell) -> Constraint:
    call_form = form.calls[0]
    calls = _calls(call_form, tools, demand.parallel, spell)
    if demand.required:
        return calls
    if demand.answer is not None:
        return OneOf(options=(demand.answer, calls))
    if call_form.only_at_start:
        # What starts like a call is one; so an answer starts otherwise.
        start = re.escape(call_form.begin[0])
        return OneOf(options=(calls, Regex(pattern=rf"(\s*[^\s{start}](.|\n)*)?")))
    free = _free(call_form.begin, spell)
    if call_form.end or not demand.parallel:
        return _joined(free, Repeat(body=_joined(calls, free) if demand.parallel else calls, maximum=1))
    return _joined(free, Repeat(body=_joined(_one_call(call_form, tools, spell), free)))


def _free(mark: str, spell: Spell) -> Constraint:
    """Text without `mark`. A mark that begins with a special token cannot be spelled by text anyway."""
    first = spell(mark)[0]
    if isinstance(first, Token):
        return AnyText()
    assert isinstance(first, Text), "a mark is spelled by texts and tokens"
    return AnyText(without=(first.text,))


def _calls(form: CallFormat, tools: Sequence[Tool], parallel: bool, spell: Spell) -> Constraint:
    """One call, or several if `parallel`."""
    maximum = None if parallel else 1
    if not form.end:
        separator = form.separator or "\n"
        return Repeat(body=_one_call(form, tools, spell), minimum=1, maximum=maximum, separator=separator)
    calls = Repeat(body=_any_tool(form, tools, spell), minimum=1, maximum=maximum, separator=form.separator)
    opening = () if form.is_begin_part else (*spell(form.begin), *spell(form.opening))
    return _joined(*opening, calls, *spell(form.end))


def _one_call(form: CallFormat, tools: Sequence[Tool], spell: Spell) -> Constraint:
    opening = () if form.is_begin_part else spell(form.begin)
    return _joined(*opening, _any_tool(form, tools, spell))


def _any_tool(form: CallFormat, tools: Sequence[Tool], spell: Spell) -> Constraint:
    options = tuple(
        _joined(
            *spell(form.call_begin), *(piece for part in form.parts for piece in _part(part, tool, spell))
        )
        for tool in tools
    )
    return options[0] if len(options) == 1 else OneOf(options=options)


def _part(part: Part, tool: Tool, spell: Spell) -> tuple[Constraint, ...]:
    if isinstance(part, Mark):
        return spell(part.text) if part.is_written else ()
    if isinstance(part, Space):
        return as_text(part.written)
    if isinstance(part, Name):
        head = as_text(part.prefix + tool.name + part.counter)
        return (*head, Regex(pattern="[0-9]{1,3}")) if part.counter else head
    if isinstance(part, JsonArguments):
        return (JsonSchema(text=arguments_schema(tool)),)
    if isinstance(part, JsonCall):
        opening = f'{{"{part.name_keys[0]}": {json.dumps(tool.name)}, "{part.argument_keys[0]}": '
        return (Text(text=opening), JsonSchema(text=arguments_schema(tool)), Text(text="}"))
    return _notation(part, tool, spell)


def _notation(part: Part, tool: Tool, spell: Spell) -> tuple[Constraint, ...]:
    if isinstance(part, TaggedArguments):
        return tagged_arguments(part, tool, spell)
    if isinstance(part, PythonArguments):
        return python_arguments(tool)
    if isinstance(part, BareObject):
        return bare_object(tool, spell(part.quote))
    return spell(part.written)  # type: ignore[union-attr]  # only Word is left


def arguments_schema(tool: Tool) -> str:
    """The schema of a tool's arguments: they are an object, whatever else the schema says."""
    schema = dict(tool.schema)
    schema.setdefault("type", "object")
    return json.dumps(schema, ensure_ascii=False)


def _channel_output(form: ChannelFormat, tools: Sequence[Tool], demand: Demand, spell: Spell) -> Constraint:
    """Thoughts in messages of their own, then the answer or one call (its end token ends the output)."""
    thoughts = _joined(
        *spell(form.channel),
        *as_text(form.reasoning_channels[0]),
        *spell(form.message),
        _free(form.ends[0], spell),
        *spell(form.ends[0]),
        *spell(form.start),
    )
    calls = tuple(_channel_call(form, tool, spell) for tool in tools)
    answer = _joined(
        *spell(form.channel),
        *as_text(form.content_channels[0]),
        *spell(form.message),
        demand.answer or _free(form.ends[0], spell),
    )
    options = calls if demand.required and calls else (answer, *calls)
    return _joined(Repeat(body=thoughts, maximum=1), OneOf(options=options))


def _channel_call(form: ChannelFormat, tool: Tool, spell: Spell) -> Constraint:
    return _joined(
        *spell(form.channel),
        *as_text(f"{form.content_channels[1]} {form.recipient}{form.function_prefix}{tool.name} "),
        *spell(form.constrain),
        *as_text("json"),
        *spell(form.message),
        JsonSchema(text=arguments_schema(tool)),
    )


def _joined(*parts: Constraint) -> Constraint:
    return parts[0] if len(parts) == 1 else InSequence(parts=tuple(parts))
