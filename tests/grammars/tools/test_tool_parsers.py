"""Parsers of tool-call formats: what is said, whatever the pieces it comes in."""

# ruff: noqa: RUF001 (the marks are the models' own)

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgrt_grammars.tools.events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning
from sgrt_grammars.tools.formats import FORMATS
from sgrt_grammars.tools.parser import OutputParser, merged
from sgrt_grammars.tools.tool import Call, Tool
from sgrt_grammars.tools.writing import described_tools, written_calls

TOOLS = (
    Tool(
        name="book",
        description="Book a room.",
        parameters=json.dumps(
            {
                "type": "object",
                "properties": {
                    "hotel": {"type": "string"},
                    "nights": {"type": "integer"},
                    "quiet": {"type": "boolean"},
                    "extras": {"type": "array", "items": {"type": "string"}},
                    "code": {"type": ["string", "null"]},
                },
                "required": ["hotel"],
            }
        ),
    ),
    Tool(name="clock", parameters='{"type": "object", "properties": {}}'),
)
BOOK = {"hotel": "Krone <3>", "nights": 2}

# (format, what the model wrote, the prompt opened its thoughts, thoughts, content, calls)
EXAMPLES = [
    ("hermes", '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>', False, "", "", [("clock", {})]),
    (
        "hermes",
        '<think>\nTwo steps.\n</think>\n\nOn it.\n<tool_call>{"name": "book", "arguments": '
        '{"hotel": "</tool_call>"}}</tool_call>\n<tool_call>{"name": "clock", "arguments": {}}</tool_call>',
        False,
        "Two steps.",
        "On it.",
        [("book", {"hotel": "</tool_call>"}), ("clock", {})],
    ),
    ("hermes", "one\n</think>\n\ntwo", True, "one", "two", []),
    ("hermes", '<tool_call>\n{"name": "book", "arguments": {"hotel": "Kr', False, "", "", []),
    ("hermes", '<tool_call>\n{"name": "unknown", "arguments": {}}\n</tool_call>done', False, "", "done", []),
    (
        "qwen_xml",
        "<tool_call>\n<function=book>\n<parameter=hotel>\nKrone <3>\n</parameter>\n<parameter=nights>\n2\n"
        "</parameter>\n</function>\n</tool_call>",
        False,
        "",
        "",
        [("book", BOOK)],
    ),
    (
        "qwen_xml",
        "<function=book>\n<parameter=hotel>\n  a </parameter> b\n\n</parameter>\n<parameter=quiet>\nTrue\n"
        "</parameter>\n</function>",
        False,
        "",
        "",
        [("book", {"hotel": "  a </parameter> b\n", "quiet": True})],
    ),
    ("llama_json", '{"name": "book", "parameters": {"hotel": "Krone <3>", "nights": 2}}', False, "", "", [("book", BOOK)]),
    ("llama_json", 'So: <|python_tag|>{"name": "clock", "parameters": {}}', False, "", "So: ", [("clock", {})]),
    ("llama_json", '{"hotel": "Krone"}', False, "", '{"hotel": "Krone"}', []),
    (
        "pythonic",
        """[book(hotel='Kron\\'s', nights=-2, quiet=True, extras=["a", 'b'], code=None), clock()]""",
        False,
        "",
        "",
        [("book", {"hotel": "Kron's", "nights": -2, "quiet": True, "extras": ["a", "b"], "code": None}), ("clock", {})],
    ),
    ("pythonic", "[see the list]", False, "", "[see the list]", []),
    ("pythonic", "[clock(), book(hotel='Kr", False, "", "[clock(), book(hotel='Kr", []),
    ("mistral", '[TOOL_CALLS] [{"name": "clock", "arguments": {}}, {"name": "book", "arguments": {"hotel": "]"}}]', False, "", "", [("clock", {}), ("book", {"hotel": "]"})]),
    ("mistral", 'Hm. [TOOL_CALLS]clock[ARGS]{}[TOOL_CALLS]book[CALL_ID]a1[ARGS]{"hotel": "x"}', False, "", "Hm.", [("clock", {}), ("book", {"hotel": "x"})]),
    ("mistral", "[THINK]why[/THINK]because", False, "why", "because", []),
    (
        "deepseek",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>book\n```json\n{"hotel": "```"}\n```'
        "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>clock\n```json\n{}\n```<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
        False,
        "",
        "",
        [("book", {"hotel": "```"}), ("clock", {})],
    ),
    ("deepseek_v31", 'why</think>Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>', True, "why", "Ok.", [("clock", {})]),
    (
        "deepseek_v32",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="book">\n<｜DSML｜parameter name="hotel" string="true">12'
        '</｜DSML｜parameter>\n<｜DSML｜parameter name="nights" string="false">12</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        False,
        "",
        "",
        [("book", {"hotel": "12", "nights": 12})],
    ),
    (
        "glm",
        "<tool_call>book\n<arg_key>hotel</arg_key>\n<arg_value>12</arg_value>\n<arg_key>nights</arg_key>\n"
        "<arg_value>12</arg_value>\n</tool_call>\n<tool_call>clock</tool_call>and so",
        False,
        "",
        "and so",
        [("book", {"hotel": "12", "nights": 12}), ("clock", {})],
    ),
    (
        "kimi_k2",
        'Hm. <|tool_calls_section_begin|><|tool_call_begin|>functions.book:0<|tool_call_argument_begin|>{"hotel": '
        '"<|tool_call_end|>"}<|tool_call_end|><|tool_calls_section_end|>',
        False,
        "",
        "Hm. ",
        [("book", {"hotel": "<|tool_call_end|>"})],
    ),
    (
        "kimi_k3",
        'so<|close|>think<|sep|><|open|>response<|sep|>Hm.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call '
        'tool="book" index="1"<|sep|><|open|>argument key="hotel" type="string"<|sep|>12<|close|>argument<|sep|>'
        '<|open|>argument key="nights" type="number"<|sep|>12<|close|>argument<|sep|><|close|>call<|sep|><|close|>'
        "tools<|sep|><|close|>message<|sep|>",
        True,
        "so",
        "Hm.",
        [("book", {"hotel": "12", "nights": 12})],
    ),
    (
        "gemma",
        '<|channel>thought\nso\n<channel|><|tool_call>call:book{hotel:<|"|>a, }b<|"|>,nights:2,extras:[<|"|>x<|"|>]}<tool_call|>',
        False,
        "so",
        "",
        [("book", {"hotel": "a, }b", "nights": 2, "extras": ["x"]})],
    ),
    (
        "harmony",
        "<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>commentary to=functions.book "
        '<|constrain|>json<|message|>{"hotel": "x"}<|call|>',
        False,
        "so",
        "",
        [("book", {"hotel": "x"})],
    ),
    ("harmony", "<|channel|>final<|message|>Done.<|return|>", False, "", "Done.", []),
    ("harmony", " to=functions.clock<|channel|>commentary json<|message|>{}", False, "", "", [("clock", {})]),
]  # fmt: skip


def parsed(name: str, pieces: list[str], *, is_open: bool = False, live: bool = False) -> list[Event]:
    parser = OutputParser(FORMATS[name], TOOLS, is_reasoning_open=is_open, streams_arguments=live)
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
    return merged(events + parser.finish())


def summed(events: list[Event]) -> tuple[str, str, list[tuple[str, object]]]:
    """Thoughts, content and complete calls."""
    calls: list[tuple[str, object]] = []
    name, arguments = "", ""
    for event in events:
        if isinstance(event, CallStart):
            name, arguments = event.name, ""
        elif isinstance(event, CallArguments):
            arguments += event.text
        elif isinstance(event, CallEnd):
            calls.append((name, json.loads(arguments)))
    thoughts = "".join(event.text for event in events if isinstance(event, Reasoning))
    content = "".join(event.text for event in events if isinstance(event, Content))
    return thoughts, content, calls


@pytest.mark.parametrize(("name", "text", "is_open", "thoughts", "content", "calls"), EXAMPLES)
def test_each_format_is_read(
    name: str, text: str, is_open: bool, thoughts: str, content: str, calls: list[tuple[str, object]]
) -> None:
    assert summed(parsed(name, [text], is_open=is_open)) == (thoughts, content, calls)


@pytest.mark.parametrize(("name", "text", "is_open"), [example[:3] for example in EXAMPLES])
@pytest.mark.parametrize("live", [False, True])
def test_pieces_do_not_matter(name: str, text: str, is_open: bool, live: bool) -> None:
    whole = parsed(name, [text], is_open=is_open, live=live)
    assert parsed(name, list(text), is_open=is_open, live=live) == whole
    for seed in range(8):
        source = random.Random(seed)
        pieces = []
        rest = text
        while rest:
            size = source.randint(1, 12)
            pieces.append(rest[:size])
            rest = rest[size:]
        assert parsed(name, pieces, is_open=is_open, live=live) == whole


MARKS = [
    "<tool_call>", "</tool_call>", '{"name": "clock", "arguments": {}}', "<think>", "</think>", "[TOOL_CALLS]",
    "[ARGS]", "clock", "{", "}", "[", "]", "(", ")", '"', "\\", "'", "<function=clock>", "</function>",
    "<parameter=hotel>", "</parameter>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<|channel|>",
    "<|message|>", "final", "commentary to=functions.clock", "<|end|>", "<|tool_call>", "call:clock", "<tool_call|>",
    '<|"|>', "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<|python_tag|>", "\n", " ", "text",
]  # fmt: skip


@settings(max_examples=150)
@given(
    name=st.sampled_from(sorted(FORMATS)),
    parts=st.lists(st.sampled_from(MARKS) | st.text(max_size=3), max_size=14),
    is_open=st.booleans(),
    live=st.booleans(),
)
def test_whatever_comes_is_read_without_failing_and_pieces_do_not_matter(
    name: str, parts: list[str], is_open: bool, live: bool
) -> None:
    text = "".join(parts)
    whole = parsed(name, [text], is_open=is_open, live=live)
    assert parsed(name, parts, is_open=is_open, live=live) == whole
    assert parsed(name, list(text), is_open=is_open, live=live) == whole
    if not live:
        summed(whole)  # every call that is reported has sound arguments


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_what_is_written_is_read_back(name: str) -> None:
    calls = [Call(name="book", arguments=json.dumps(BOOK)), Call(name="clock", arguments="{}")]
    calls = calls[:1] if name == "harmony" else calls  # one message calls one tool
    text = written_calls(FORMATS[name], calls)
    expected = [(call.name, json.loads(call.arguments)) for call in calls]
    assert summed(parsed(name, list(text)))[2] == expected
    assert "Book a room." in described_tools(FORMATS[name], TOOLS)
