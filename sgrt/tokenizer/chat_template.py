"""Chats to tokens, by the model's own template.

The template's text is cut at the special tokens that the template wrote; what lies between is encoded as plain text.
So a chat has exactly the tokens that `transformers` gives it, except that special tokens which users spell stay text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from sgrt.errors import InvalidRequest
from sgrt.tokenizer.disguise import Disguise, Json, Marks
from sgrt.tokenizer.jinja_sandbox import TemplateRefusal
from sgrt.tokenizer.template_program import LocalTemplate, TemplateFailure, TemplateProgram
from sgrt.tokenizer.tokenizer import Tokenizer
from sgrt_frontend.call import Message, Role


class ChatTemplate:
    """A model's chat template, or the absence of one. Immutable; may be used from several threads."""

    def __init__(
        self,
        source: str | None,
        tokenizer: Tokenizer,
        template_tokens: Sequence[tuple[str, str]] = (),
        now: Callable[[], datetime] = datetime.now,
        program: TemplateProgram | None = None,
    ) -> None:
        """`template_tokens` are the tokens a template may name (`bos_token`); `now` is the time it may ask for.

        `program` runs the template; by default it runs in this process.
        """
        self._source = source
        self._program = program or LocalTemplate(source or "", now)
        self._tokenizer = tokenizer
        self._template_tokens = dict(template_tokens)

    @property
    def exists(self) -> bool:
        """Whether the model has a chat template."""
        return self._source is not None

    @property
    def source(self) -> str:
        """The template as it was loaded; empty when there is none."""
        return self._source or ""

    @cached_property
    def append_only_problem(self) -> str | None:
        """How the template rewrites earlier turns when later ones come, in words; None when it does not, so that
        what was computed of a chat is never computed again.

        Found by rendering sample chats turn by turn.

        Raises:
            InvalidRequest: the model has no chat template, or not a working one.
        """
        answers = ["four"]
        if "think" in (self._source or ""):
            answers.append("<think>\ntwo and two\n</think>\n\nfour")
        failures: list[InvalidRequest] = []
        for answer in answers:
            for chat in _sample_chats(answer):
                try:
                    problem = self._first_rewrite(chat)
                except InvalidRequest as error:
                    failures.append(error)
                    continue
                if problem is not None:
                    return problem
        if len(failures) == 2 * len(answers):  # not one of the samples was accepted
            raise failures[0]
        return None

    def render(
        self,
        messages: Sequence[Message | Mapping[str, Json]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Json]] = (),
        variables: Mapping[str, Json] | None = None,
    ) -> tuple[int, ...]:
        """The tokens of a chat. What the template puts first, a begin token too, is among them.

        `add_generation_prompt` opens the assistant's turn. `variables` are what else a template may ask for
        (`enable_thinking`).

        Raises:
            InvalidRequest: the model has no chat template, or it refuses these messages.
        """
        text, disguise = self._rendered(messages, add_generation_prompt, tools, variables or {})
        pieces = ((disguise.reveal(run), mark) for run, mark in self._tokenizer.pieces(text))
        return self._tokenizer.encode_pieces(pieces, is_start=True)

    def render_text(
        self,
        messages: Sequence[Message | Mapping[str, Json]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Json]] = (),
        variables: Mapping[str, Json] | None = None,
    ) -> str:
        """The text of a chat, for people to read; errors as for `render`."""
        text, disguise = self._rendered(messages, add_generation_prompt, tools, variables or {})
        return disguise.reveal(text)

    def _rendered(
        self,
        messages: Sequence[Message | Mapping[str, Json]],
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Json]],
        variables: Mapping[str, Json],
    ) -> tuple[str, Disguise]:
        values: dict[str, Json] = {
            **variables,
            "messages": [_as_json(message) for message in messages],
            "tools": [dict(tool) for tool in tools] or None,
        }
        if self._source is None:
            raise InvalidRequest(
                "the model has no chat template: use plain text, or a model tuned for chats", param="messages"
            )
        disguise = Disguise(self._marks, values, self._source)
        hidden = disguise.hide(values)
        assert isinstance(hidden, dict)
        settings: dict[str, Json] = {
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            **self._template_tokens,
        }
        try:
            return self._program.run(settings | hidden), disguise
        except TemplateRefusal as error:
            raise InvalidRequest(
                f"the model's chat template does not take these messages: {disguise.reveal(str(error))}",
                param="messages",
            ) from error
        except TemplateFailure as error:
            raise InvalidRequest(
                f"the model's chat template {disguise.reveal(str(error))}", param="messages"
            ) from error

    @cached_property
    def _marks(self) -> Marks:
        return Marks(self._tokenizer.special_tokens)

    def _first_rewrite(self, chat: Sequence[Message]) -> str | None:
        """The first turn of `chat` that does not go on from the turn before it."""
        first = 2 if chat[0].role is Role.SYSTEM else 1  # a system message alone is no chat
        for count in range(first, len(chat)):
            closed = self.render(chat[:count], add_generation_prompt=False)
            opened = self.render(chat[:count], add_generation_prompt=True)
            following = self.render(chat[: count + 1], add_generation_prompt=False)
            if following[: len(closed)] != closed:
                return f"turn {count + 1} changes how the turns before it are written"
            if chat[count].role is Role.ASSISTANT and following[: len(opened)] != opened:
                return f"the assistant's turn {count + 1} is not written as the template opened it"
        return None


def _sample_chats(answer: str) -> tuple[Sequence[Message], Sequence[Message]]:
    turns = [
        Message(role=role, content=content)
        for _ in range(2)
        for role, content in ((Role.USER, "What is two and two?"), (Role.ASSISTANT, answer))
    ]
    return [Message(role=Role.SYSTEM, content="Be brief."), *turns], turns


def _as_json(message: Message | Mapping[str, Json]) -> Json:
    if isinstance(message, Message):
        return {"role": message.role.value, "content": message.content}
    return dict(message)
