"""Chats rendered by the model's own template: the reference's tokens, and no special token from a user."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from learned_vocabulary import learn_byte_level
from texts import TEXTS, any_text
from transformers.utils.chat_template_utils import render_jinja_template

from sgrt.errors import InvalidRequest
from sgrt.tokenizer.chat_template import ChatTemplate
from sgrt.tokenizer.disguise import Json
from sgrt.tokenizer.tokenizer import Tokenizer
from sgrt_frontend.call import Message, Role

DATA = learn_byte_level().byte_level_data("smollm")
TOKENIZER = Tokenizer(DATA)
NOON = datetime(2024, 7, 26, 12, 0)

# Templates of the kinds that are published, written for these tests.
PLAIN = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMING = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set opening = messages[0]['content'] + '\n\n' %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set opening = '' %}
    {%- set turns = messages %}
{%- endif %}
{%- for message in turns %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate') }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\n' + (opening if loop.first else '') }}
    {{- message['content'] | trim }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
FORGETFUL = """{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content and not loop.last %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""
WITH_TOOLS = (
    "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{% generation %}{{ messages[0].content.upper() }}<|im_end|>{% endgeneration %}{{ strftime_now('%d %b %Y') }}"
)


def template(source: str | None) -> ChatTemplate:
    return ChatTemplate(source, TOKENIZER, DATA.template_tokens, now=lambda: NOON)


def chat(*contents: str, system: str | None = None) -> list[Message]:
    roles = [Role.USER, Role.ASSISTANT] * len(contents)
    turns = [Message(role=role, content=content) for role, content in zip(roles, contents, strict=False)]
    return turns if system is None else [Message(role=Role.SYSTEM, content=system), *turns]


def reference_text(source: str, messages: Sequence[Message], *, add_generation_prompt: bool) -> str:
    plain = [{"role": message.role.value, "content": message.content} for message in messages]
    rendered = render_jinja_template(
        conversations=[plain],
        chat_template=source,
        add_generation_prompt=add_generation_prompt,
        bos_token=dict(DATA.template_tokens)["bos_token"],
    )
    return str(rendered[0][0])


@pytest.mark.parametrize("source", [PLAIN, TRIMMING, FORGETFUL])
@pytest.mark.parametrize("add_generation_prompt", [True, False])
def test_tokens_are_those_of_the_reference(source: str, add_generation_prompt: bool) -> None:
    harmless = [text for text in TEXTS if not any(mark in text for mark in TOKENIZER.special_tokens)]
    for first, second in zip(harmless, reversed(harmless), strict=True):
        messages = chat(first, second, f" {first}\n", system=second)
        text = reference_text(source, messages, add_generation_prompt=add_generation_prompt)
        rendered = template(source).render(messages, add_generation_prompt=add_generation_prompt)
        assert rendered == TOKENIZER.encode(text, special=True)


@pytest.mark.parametrize("source", [PLAIN, TRIMMING, FORGETFUL])
def test_what_users_write_adds_no_special_token_and_loses_no_text(source: str) -> None:
    marks = set(TOKENIZER.special_tokens.values())
    expected = [
        token
        for token in template(source).render(chat("a", "b", "c", system="d"), add_generation_prompt=True)
        if token in marks
    ]

    @given(st.lists(any_text(), min_size=4, max_size=4))
    def as_if_harmless(contents: list[str]) -> None:
        messages = chat(*contents[:3], system=contents[3])
        tokens = template(source).render(messages, add_generation_prompt=True)
        assert [token for token in tokens if token in marks] == expected
        text = reference_text(source, messages, add_generation_prompt=True)
        assert TOKENIZER.decode(tokens, skip_special=False) == text
        assert template(source).render_text(messages, add_generation_prompt=True) == text

    as_if_harmless()


def test_special_tokens_in_two_halves_are_not_joined() -> None:
    rendered = template("{{ messages[0].content }}{{ messages[1].content }}").render(
        chat("<|im_", "end|>"), add_generation_prompt=False
    )
    assert TOKENIZER.decode(rendered) == "<|im_end|>"


def test_tools_are_written_as_json_and_cannot_bring_special_tokens() -> None:
    tool: dict[str, Json] = {"name": "<|im_end|>", "<|im_start|>": ["é", 1, None]}
    tokens = template(WITH_TOOLS).render(chat("hi"), add_generation_prompt=False, tools=[tool])
    assert TOKENIZER.decode(tokens) == '{"name": "<|im_end|>", "<|im_start|>": ["é", 1, null]}\nHI26 Jul 2024'
    assert sum(token in TOKENIZER.special_tokens.values() for token in tokens) == 1


def test_variables_reach_the_template() -> None:
    source = "{{ 'on' if enable_thinking else 'off' }}"
    rendered = template(source).render_text(
        [], add_generation_prompt=False, variables={"enable_thinking": True}
    )
    assert rendered == "on"


@pytest.mark.parametrize("source", [PLAIN, TRIMMING])
def test_a_template_that_goes_on_from_earlier_turns_is_append_only(source: str) -> None:
    assert template(source).append_only_problem is None
    assert template(source).append_only_problem is None


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (FORGETFUL, "changes how the turns before it are written"),
        (
            PLAIN.replace("'<|im_start|>assistant\n'", "'<|im_start|>assistant\n(thinks)'"),
            "as the template opened it",
        ),
        ("{{ messages | length }}" + PLAIN, "changes how the turns before it are written"),
    ],
)
def test_a_template_that_rewrites_earlier_turns_is_found_out(source: str, problem: str) -> None:
    assert template(source).append_only_problem is not None
    assert problem in str(template(source).append_only_problem)


def test_a_model_without_a_template_says_so() -> None:
    absent = template(None)
    assert not absent.exists
    with pytest.raises(InvalidRequest, match="no chat template"):
        absent.render(chat("hi"), add_generation_prompt=True)
    with pytest.raises(InvalidRequest, match="no chat template"):
        _ = absent.append_only_problem


def test_a_template_that_refuses_the_messages_is_quoted() -> None:
    with pytest.raises(InvalidRequest, match="does not take these messages: roles must alternate") as caught:
        template(TRIMMING).render([*chat("a"), *chat("b")], add_generation_prompt=True)
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% for %}", "malformed"),
        ("{{ messages[0].content + none }}", "TypeError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ cycler.__init__.__globals__.os }}", "SecurityError"),
        ("{{ 'a' * 1000000000 }}", "repeat up to"),
        ("{{ 2 ** 1000000000 }}", "powers up to"),
        ("{{ 'a' | center(1000000000) }}", "malformed"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{% for a in range(99999) %}{{ 'a' * 9999 }}{% endfor %}", "writes more than"),
    ],
)
def test_a_broken_or_hostile_template_ends_in_an_error(source: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        template(source).render(chat("hi"), add_generation_prompt=True)
