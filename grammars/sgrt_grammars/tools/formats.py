"""The formats, one description each. What they look like is told by the models' own chat templates."""

# ruff: noqa: RUF001 (the marks are the models' own)

from __future__ import annotations

from sgrt_grammars.tools.format import (
    CallFormat,
    ChannelFormat,
    Format,
    ReasoningFormat,
    Rejected,
    ToolFormat,
)
from sgrt_grammars.tools.parts import (
    BareObject,
    JsonArguments,
    JsonCall,
    Mark,
    Name,
    PythonArguments,
    Space,
    TaggedArguments,
    TypeAttribute,
    Word,
)

_THINK = ReasoningFormat(begin="<think>", end="</think>", written_end="\n\n")

HERMES = ToolFormat(
    name="hermes",
    reasoning=_THINK,
    calls=(
        CallFormat(
            begin="<tool_call>",
            parts=(Space(written="\n"), JsonCall(), Space(written="\n"), Mark(text="</tool_call>")),
        ),
    ),
    template_marks=("<tool_call>", "arguments"),
)

_QWEN_FUNCTION = (
    Name(ends=(">",)),
    Mark(text=">"),
    Space(written="\n"),
    TaggedArguments(
        before="<parameter=",
        between=(">",),
        after="</parameter>",
        follows=("<parameter=", "</function>"),
        padding="\n",
    ),
    Mark(text="</function>"),
    Space(written="\n"),
)

QWEN_XML = ToolFormat(
    name="qwen_xml",
    reasoning=ReasoningFormat(begin="<think>", end="</think>", written_end="\n\n", ends_at_call=True),
    calls=(
        CallFormat(
            begin="<tool_call>",
            parts=(
                Space(written="\n"),
                Mark(text="<function="),
                *_QWEN_FUNCTION,
                Mark(text="</tool_call>"),
            ),
        ),
        # Models leave out the outer mark now and then.
        CallFormat(begin="<function=", parts=(*_QWEN_FUNCTION, Mark(text="</tool_call>", is_optional=True))),
    ),
    template_marks=("<function=", "<parameter="),
)

LLAMA_JSON = ToolFormat(
    name="llama_json",
    trims_content=False,
    calls=(
        CallFormat(
            begin="{",
            is_begin_part=True,
            only_at_start=True,
            rejected=Rejected.CONTENT,
            parts=(JsonCall(argument_keys=("parameters", "arguments"), needs_arguments=True),),
        ),
        CallFormat(
            begin="<|python_tag|>",
            parts=(JsonCall(argument_keys=("parameters", "arguments"), needs_arguments=True),),
        ),
    ),
    template_marks=("parameters", "<|python_tag|>"),
)

PYTHONIC = ToolFormat(
    name="pythonic",
    wrappers=("<|python_start|>", "<|python_end|>", "<|tool_call_start|>", "<|tool_call_end|>"),
    calls=(
        CallFormat(
            begin="[",
            parts=(Name(ends=("(",)), PythonArguments()),
            separator=", ",
            end="]",
            only_at_start=True,
            rejected=Rejected.CONTENT,
        ),
    ),
    template_marks=("[func_name1(",),
)

MISTRAL = ToolFormat(
    name="mistral",
    reasoning=ReasoningFormat(begin="[THINK]", end="[/THINK]"),
    calls=(
        CallFormat(
            begin="[TOOL_CALLS]",
            opening="[",
            parts=(JsonCall(),),
            separator=", ",
            end="]",
        ),
        CallFormat(
            begin="[TOOL_CALLS]",
            parts=(
                Name(ends=("[ARGS]", "[CALL_ID]", "{")),
                Mark(text="[CALL_ID]", is_optional=True, is_written=False),
                Word(ends=("[ARGS]", "{")),
                Mark(text="[ARGS]", is_optional=True),
                JsonArguments(),
            ),
        ),
    ),
    template_marks=("[TOOL_CALLS]",),
)

_DEEPSEEK_SECTION = "<｜tool▁calls▁begin｜>"
_DEEPSEEK_END = "<｜tool▁calls▁end｜>"

DEEPSEEK = ToolFormat(
    name="deepseek",
    reasoning=ReasoningFormat(begin="<think>", end="</think>"),
    calls=(
        CallFormat(
            begin=_DEEPSEEK_SECTION,
            call_begin="<｜tool▁call▁begin｜>",
            end=_DEEPSEEK_END,
            separator="\n",
            parts=(
                Mark(text="function<｜tool▁sep｜>"),
                Name(ends=("\n",)),
                Space(written="\n"),
                Mark(text="```json"),
                Space(written="\n"),
                JsonArguments(),
                Space(written="\n"),
                Mark(text="```"),
                Mark(text="<｜tool▁call▁end｜>"),
            ),
        ),
    ),
    template_marks=("<｜tool▁calls▁begin｜>", "```json"),
)

DEEPSEEK_V31 = ToolFormat(
    name="deepseek_v31",
    reasoning=ReasoningFormat(begin="<think>", end="</think>"),
    calls=(
        CallFormat(
            begin=_DEEPSEEK_SECTION,
            call_begin="<｜tool▁call▁begin｜>",
            end=_DEEPSEEK_END,
            parts=(
                Name(ends=("<｜tool▁sep｜>",)),
                Mark(text="<｜tool▁sep｜>"),
                JsonArguments(),
                Space(),
                Mark(text="<｜tool▁call▁end｜>"),
            ),
        ),
    ),
    template_marks=("<｜tool▁calls▁begin｜>",),
)


def _dsml(name: str, prefix: str, section: str, template_mark: str) -> ToolFormat:
    def opened(word: str) -> str:
        return f"<{prefix}{word}"

    def closed(word: str) -> str:
        return f"</{prefix}{word}>"

    return ToolFormat(
        name=name,
        reasoning=ReasoningFormat(begin="<think>", end="</think>"),
        calls=(
            CallFormat(
                begin=opened(section) + ">",
                call_begin=opened("invoke") + ' name="',
                end=closed(section),
                separator="\n",
                parts=(
                    Name(ends=('"',)),
                    Mark(text='"'),
                    Mark(text="/", is_optional=True, is_written=False),
                    Mark(text=">"),
                    Space(written="\n"),
                    TaggedArguments(
                        before=opened("parameter") + ' name="',
                        between=(">",),
                        attribute=TypeAttribute(
                            before='" string="', string="true", other="false", after='">'
                        ),
                        after=closed("parameter"),
                        follows=(opened("parameter"), closed("invoke")),
                    ),
                    Mark(text=closed("invoke"), is_optional=True),
                ),
            ),
        ),
        template_marks=(template_mark,),
    )


DEEPSEEK_V32 = _dsml("deepseek_v32", "｜DSML｜", "function_calls", "<｜DSML｜function_calls>")
DEEPSEEK_V4 = _dsml("deepseek_v4", "｜DSML｜", "tool_calls", "<｜DSML｜tool_calls>")
DEEPSEEK_V41 = _dsml("deepseek_v41", "｜DSML｜ ", "calls", "<｜DSML｜ calls>")

GLM = ToolFormat(
    name="glm",
    reasoning=ReasoningFormat(begin="<think>", end="</think>", written_end="\n"),
    calls=(
        CallFormat(
            begin="<tool_call>",
            parts=(
                Name(ends=("\n", "<arg_key>", "</tool_call>")),
                Space(written="\n"),
                TaggedArguments(
                    before="<arg_key>",
                    between=("</arg_key>", "<arg_value>"),
                    after="</arg_value>",
                    follows=("<arg_key>", "</tool_call>"),
                ),
                Mark(text="</tool_call>"),
            ),
        ),
    ),
    template_marks=("<arg_key>",),
)

KIMI_K2 = ToolFormat(
    name="kimi_k2",
    trims_content=False,
    reasoning=ReasoningFormat(begin="<think>", end="</think>"),
    calls=(
        CallFormat(
            begin="<|tool_calls_section_begin|>",
            call_begin="<|tool_call_begin|>",
            end="<|tool_calls_section_end|>",
            parts=(
                Name(ends=("<|tool_call_argument_begin|>",), prefix="functions.", counter=":"),
                Mark(text="<|tool_call_argument_begin|>"),
                JsonArguments(),
                Space(),
                Mark(text="<|tool_call_end|>"),
            ),
        ),
    ),
    template_marks=("<|tool_calls_section_begin|>",),
)

KIMI_K3 = ToolFormat(
    name="kimi_k3",
    reasoning=ReasoningFormat(begin="<|open|>think<|sep|>", end="<|close|>think<|sep|>"),
    wrappers=("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
    calls=(
        CallFormat(
            begin="<|open|>tools<|sep|>",
            call_begin='<|open|>call tool="',
            end="<|close|>tools<|sep|>",
            parts=(
                Name(ends=('"',)),
                Mark(text='" index="'),
                Word(ends=('"',), written="1"),
                Mark(text='"<|sep|>'),
                TaggedArguments(
                    before='<|open|>argument key="',
                    between=("<|sep|>",),
                    attribute=TypeAttribute(before='" type="', string="string", other="", after='"<|sep|>'),
                    after="<|close|>argument<|sep|>",
                    follows=("<|open|>argument", "<|close|>call<|sep|>"),
                    separator="",
                    is_escaped=True,
                ),
                Mark(text="<|close|>call<|sep|>"),
            ),
        ),
    ),
    template_marks=("<|open|>",),
)

GEMMA = ToolFormat(
    name="gemma",
    reasoning=ReasoningFormat(begin="<|channel>", header="thought", end="<channel|>"),
    calls=(
        CallFormat(
            begin="<|tool_call>",
            parts=(
                Mark(text="call:"),
                Name(ends=("{",)),
                BareObject(quote='<|"|>'),
                Mark(text="<tool_call|>"),
            ),
        ),
    ),
    template_marks=("<|tool_call>",),
)

HARMONY = ChannelFormat(
    name="harmony",
    start="<|start|>assistant",
    channel="<|channel|>",
    message="<|message|>",
    ends=("<|end|>", "<|call|>", "<|return|>"),
    call_end="<|call|>",
    constrain="<|constrain|>",
    recipient="to=",
    function_prefix="functions.",
    reasoning_channels=("analysis",),
    content_channels=("final", "commentary"),
    template_marks=("<|channel|>",),
)

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        HERMES, QWEN_XML, LLAMA_JSON, PYTHONIC, MISTRAL, DEEPSEEK, DEEPSEEK_V31, DEEPSEEK_V32, DEEPSEEK_V4,
        DEEPSEEK_V41, GLM, KIMI_K2, KIMI_K3, GEMMA, HARMONY,
    )
}  # fmt: skip
"""Every format by its name."""
