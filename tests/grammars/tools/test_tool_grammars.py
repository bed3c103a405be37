"""Grammars of tool-call formats: whatever a model writes under them, the parser finds sound calls in it."""

from __future__ import annotations

import json
import random
from functools import cache

import jsonschema
import pytest

from sgrt_grammars.compiler import GrammarCompiler
from sgrt_grammars.constraint import Constraint, JsonSchema, Text, Token
from sgrt_grammars.errors import UnsupportedConstraint
from sgrt_grammars.mask import allowed_tokens, empty_mask
from sgrt_grammars.tools.events import CallArguments, CallEnd, CallStart, Content, Event
from sgrt_grammars.tools.formats import FORMATS
from sgrt_grammars.tools.grammar import Demand, answer_after_thoughts, as_text, output_grammar
from sgrt_grammars.tools.parser import OutputParser
from sgrt_grammars.tools.tool import Tool
from sgrt_grammars.vocabulary import Vocabulary

END = 256
MARKS = (
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "[TOOL_CALLS]",
    "<|tool_call>",
    "<|channel|>",
    "<|message|>",
)
BOOK = {
    "type": "object",
    "properties": {
        "hotel": {"type": "string"},
        "nights": {"type": "integer"},
        "kind": {"enum": ["single", "double"]},
        "extras": {"type": "array", "items": {"type": "boolean"}},
    },
    "required": ["hotel", "kind"],
}  # fmt: skip
TOOLS = (
    Tool(name="book", parameters=json.dumps(BOOK)),
    Tool(name="clock", parameters='{"type": "object", "properties": {}}'),
)
SCHEMAS = {tool.name: tool.schema for tool in TOOLS}


@cache
def vocabulary() -> Vocabulary:
    """Bytes, an end token, and the marks as special tokens."""
    specials = {mark: END + 1 + index for index, mark in enumerate(MARKS)}
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    return Vocabulary([*tokens, None, *[None] * len(MARKS)], [END], specials)


@cache
def compiler() -> GrammarCompiler:
    return GrammarCompiler(vocabulary())


def spelled(text: str) -> tuple[Constraint, ...]:
    """`text` with the special tokens in it."""
    for mark, token_id in vocabulary().special_tokens.items():
        if mark in text:
            before, _, after = text.partition(mark)
            return (*spelled(before), Token(token_id=token_id), *spelled(after))
    return (Text(text=text),) if text else ()


def walk(constraint: Constraint, seed: int, budget: int) -> str:
    """A random text of the grammar that ends within `budget` tokens; special tokens show as their marks."""
    matcher = compiler().compile(constraint).matcher()
    source = random.Random(seed)
    marks = {token_id: mark for mark, token_id in vocabulary().special_tokens.items()}
    text = bytearray()
    mask = empty_mask(vocabulary().size)
    for remaining in range(budget, -1, -1):
        matcher.mask(mask, remaining)
        allowed = allowed_tokens(mask)
        assert allowed, "a mask allows at least one token"
        likely = [token for token in allowed if token >= END or chr(token).isprintable()] or allowed
        token = source.choice(likely)
        assert matcher.advance(token, remaining)
        if token == END:
            break
        text += marks[token].encode() if token in marks else bytes([token])
    assert matcher.is_finished
    return text.decode("utf-8", "replace")


def read(name: str, text: str, *, thinking: bool = False) -> list[Event]:
    parser = OutputParser(FORMATS[name], TOOLS, is_reasoning_open=thinking, streams_arguments=True)
    return parser.feed(text) + parser.finish()


def check_calls(events: list[Event]) -> int:
    """Every call that begins ends, and its arguments are valid. How many there are."""
    starts = [event for event in events if isinstance(event, CallStart)]
    ends = [event for event in events if isinstance(event, CallEnd)]
    assert len(starts) == len(ends)
    name, arguments = "", ""
    for event in events:
        if isinstance(event, CallStart):
            name, arguments = event.name, ""
        elif isinstance(event, CallArguments):
            arguments += event.text
        elif isinstance(event, CallEnd):
            jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    return len(ends)


@pytest.mark.parametrize("spell", [as_text, spelled], ids=["text", "tokens"])
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_demanded_calls_are_sound(name: str, spell: object) -> None:
    demand = Demand(required=True, parallel=True)
    constraint = output_grammar(FORMATS[name], TOOLS, demand, spell)  # type: ignore[arg-type]  # from the table
    for seed in range(4):
        text = walk(constraint, seed, 400)
        assert check_calls(read(name, text)) >= 1, text


@pytest.mark.parametrize("spell", [as_text, spelled], ids=["text", "tokens"])
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_calls_in_running_text_are_sound(name: str, spell: object) -> None:
    constraint = output_grammar(FORMATS[name], TOOLS, Demand(thinking=True), spell)  # type: ignore[arg-type]  # from the table
    for seed in range(3):
        check_calls(read(name, walk(constraint, seed, 200), thinking=True))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_one_call_is_one_call_where_only_one_is_allowed(name: str) -> None:
    constraint = output_grammar(FORMATS[name], TOOLS, Demand(required=True, parallel=False), spelled)
    for seed in range(3):
        assert check_calls(read(name, walk(constraint, seed, 300))) == 1


def test_an_answer_of_a_shape_and_calls_are_alternatives() -> None:
    answer = JsonSchema(text='{"type": "array", "items": {"type": "null"}}')
    constraint = output_grammar(FORMATS["hermes"], TOOLS, Demand(answer=answer), spelled)
    seen = set()
    for seed in range(12):
        events = read("hermes", walk(constraint, seed, 200))
        num_calls = check_calls(events)
        if not num_calls:
            json.loads("".join(event.text for event in events if isinstance(event, Content)))
        seen.add(num_calls > 0)
    assert seen == {True, False}


def test_an_answer_comes_after_the_thoughts_that_the_prompt_opened() -> None:
    constraint = answer_after_thoughts(FORMATS["hermes"], JsonSchema(text='{"const": 7}'), spelled)
    for seed in range(4):
        events = read("hermes", walk(constraint, seed, 60), thinking=True)
        assert json.loads("".join(event.text for event in events if isinstance(event, Content))) == 7


@pytest.mark.parametrize("name", ["qwen_xml", "glm", "pythonic", "gemma"])
def test_what_a_notation_cannot_hold_is_refused_by_its_pointer(name: str) -> None:
    tool = Tool(name="f", parameters='{"type": "object", "properties": {}, "minProperties": 1}')
    with pytest.raises(UnsupportedConstraint) as caught:
        output_grammar(FORMATS[name], (tool,), Demand(required=True), as_text)
    assert caught.value.pointer == "/minProperties"


def test_a_pattern_is_kept_where_it_cannot_swallow_the_end_mark() -> None:
    def grammar(pattern: str) -> Constraint:
        schema = {
            "type": "object",
            "properties": {"x": {"type": "string", "pattern": pattern}},
            "required": ["x"],
        }
        return output_grammar(
            FORMATS["glm"], (Tool(name="f", parameters=json.dumps(schema)),), Demand(required=True), as_text
        )

    text = walk(grammar("^[a-c]{2}$"), 0, 100)
    assert "<arg_value>" in text
    with pytest.raises(UnsupportedConstraint, match="pattern"):
        grammar("a.*b")
