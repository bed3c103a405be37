"""ScriptedBackend: a backend that answers from a script, so that programs are tested without a model."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel

from sgrt_frontend.call import (
    ORDINARY,
    Call,
    Chunk,
    Description,
    Finish,
    Message,
    Origin,
    Role,
    Score,
    ScoreTerms,
    StopReason,
    TokenInfo,
    TokenLogprob,
    Usage,
)
from sgrt_frontend.errors import BackendError, ContextOverflow, InvalidRequest
from sgrt_frontend.scripted_check import violation
from sgrt_frontend.scripted_output import ScriptedOutput, scripted_output
from sgrt_frontend.scripted_tokenizer import ScriptedTokenizer
from sgrt_frontend.spelling import Spelling
from sgrt_grammars import constraint as constraints


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A scripted answer with more to say than its text.

    `delay_s` passes before the first chunk. `fails_after` tokens the call raises `error`.
    """

    text: str = ""
    delay_s: float = 0.0
    logprob: float = -0.5
    error: Exception | None = None
    fails_after: int = 0


Reply: TypeAlias = object
"""A text, a JSON value or pydantic model (written compactly), an Answer, or an exception that the call raises."""

Template: TypeAlias = Callable[[Sequence[Message], bool], Iterable[str | Message]]
"""Renders a chat: strings are template text, messages stand for their content."""

NextLogprobs: TypeAlias = Callable[[tuple[int, ...]], Sequence[float]]
"""The log-probability of every token of the vocabulary after a prefix."""


def chat_markup(messages: Sequence[Message], open_assistant: bool) -> Iterator[str | Message]:
    """The default template: `<|role|>`, a line break, the content, `<|end|>`, a line break."""
    for message in messages:
        yield f"<|{message.role.value}|>\n"
        yield message
        yield "<|end|>\n"
    if open_assistant:
        yield f"<|{Role.ASSISTANT.value}|>\n"


class ScriptedBackend:
    """Answers calls from a script, in the order in which they arrive, or by a function of the prompt's text.

    Args:
        script: replies in order, or a function from the prompt (special tokens written out) to a reply.
        likes: texts the scripted model likes to say: `select` chooses the first of them that is a choice.
        next_logprobs: a whole distribution instead of `likes`; `score` and `select` then follow it.
        template: renders chats; None for a model without a chat template.
        context_tokens: longer prompts are refused.

    Stops and `min_tokens` apply as in an engine. A reply that violates the call's constraint or does not fit its
    `max_tokens`, or ends before its `min_tokens`, is refused with BackendError: a real engine would never give it. `calls` keeps every call for inspection.
    """

    def __init__(
        self,
        script: Sequence[Reply] | Callable[[str], Reply] = (),
        *,
        likes: Sequence[str] = (),
        next_logprobs: NextLogprobs | None = None,
        template: Template | None = chat_markup,
        begin_tokens: tuple[int, ...] = (),
        context_tokens: int = 1 << 20,
        tokenizer: ScriptedTokenizer | None = None,
        model: str = "scripted",
    ) -> None:
        self.tokenizer = tokenizer or ScriptedTokenizer()
        self.calls: list[Call] = []
        self.scored: list[tuple[int, ...]] = []
        self._script = script
        self._given = 0
        self._likes = tuple(likes)
        self._next_logprobs = next_logprobs
        self._template = template
        self._begin_tokens = begin_tokens
        self._context_tokens = context_tokens
        self._model = model
        self._seen: dict[int, object] = {}

    @property
    def remaining(self) -> int:
        """Replies of a list script that no call has asked for yet."""
        return 0 if callable(self._script) else len(self._script) - self._given

    def describe(self) -> Description:
        """What runs here."""
        return Description(
            model=self._model,
            context_tokens=self._context_tokens,
            vocabulary_tokens=len(self.tokenizer),
            end_token_ids=(self.tokenizer.end_token_id,),
            has_chat_template=self._template is not None,
        )

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        """Token ids of a text, wherever it stands."""
        return self.tokenizer.encode(text, special=special)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens."""
        return self.tokenizer.decode_bytes(token_ids).decode("utf-8", "replace")

    def spelling(self) -> Spelling:
        """The vocabulary's bytes."""
        return self.tokenizer.spelling

    def begin_tokens(self) -> tuple[int, ...]:
        """What every prompt starts with."""
        return self._begin_tokens

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        """Token ids of a chat."""
        if self._template is None:
            raise InvalidRequest(
                f"{self._model!r} has no chat template; append text instead of turns", param="role"
            )
        tokens: list[int] = []
        for part in self._template(messages, open_assistant):
            if isinstance(part, Message):
                tokens.extend(self.tokenizer.encode(part.content))
            else:
                tokens.extend(self.tokenizer.encode(part, special=True))
        return tuple(tokens)

    async def generate(self, call: Call) -> AsyncIterator[Chunk]:
        """Answer a call, a chunk per token."""
        self.calls.append(call)
        if len(call.prompt) >= self._context_tokens:
            raise ContextOverflow(
                f"the prompt has {len(call.prompt)} tokens, the context {self._context_tokens}; shorten the prompt"
            )
        if not call.prompt:
            raise InvalidRequest("the prompt is empty; append text before generating", param="prompt")
        cached = self._remember(call.prompt)
        answers = [self._next_answer(call) for _ in range(call.sampling.n)]
        for index, answer in enumerate(answers):
            await asyncio.sleep(answer.delay_s)
            async for chunk in self._chunks(call, answer, index, cached):
                yield chunk

    def _next_answer(self, call: Call) -> Answer:
        if callable(self._script):
            reply = self._script(self.tokenizer.shown(call.prompt))
        elif self._given < len(self._script):
            reply = self._script[self._given]
            self._given += 1
        else:
            tail = self.tokenizer.shown(call.prompt)[-80:]
            raise BackendError(
                f"the script has {len(self._script)} replies and call {self._given + 1} came: ...{tail!r}"
            )
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Answer) else Answer(text=_text_of(reply))

    async def _chunks(self, call: Call, answer: Answer, index: int, cached: int) -> AsyncIterator[Chunk]:
        output = self._outcome(call, answer)
        origin = Origin.FREE if call.constraint is None else Origin.CONSTRAINED
        for count, (token, text) in enumerate(zip(output.token_ids, output.texts, strict=True)):
            await asyncio.sleep(0)
            if answer.error is not None and count >= answer.fails_after:
                raise answer.error
            yield Chunk(
                index=index,
                token_ids=(token,),
                text=text,
                origins=(origin,),
                logprobs=_logprobs(call, token, answer.logprob),
            )
        if answer.error is not None:
            raise answer.error
        self._remember((*call.prompt, *output.token_ids[:-1]))
        usage = Usage(
            prompt_tokens=len(call.prompt), cached_tokens=cached, output_tokens=len(output.token_ids)
        )
        finish = Finish(reason=output.reason, usage=usage, stop=output.stop)
        yield Chunk(index=index, text=output.rest, finish=finish)

    def _outcome(self, call: Call, answer: Answer) -> ScriptedOutput:
        """What the call's limits and stops leave of the reply; refused where no engine would give it."""
        text = _healed(call.constraint, answer.text)
        problem = violation(call.constraint, text)
        if problem:
            raise BackendError(f"the scripted reply {text!r} violates the call's constraint: {problem}")
        tokens = self.tokenizer.encode(text)
        output = scripted_output(tokens, call.sampling, self.tokenizer.decode_bytes)
        if output.reason is StopReason.LENGTH and call.constraint is not None:
            raise BackendError(
                f"the scripted reply {text!r} has {len(tokens)} tokens, max_tokens is {call.sampling.max_tokens}"
            )
        is_short = len(output.token_ids) < call.sampling.min_tokens
        if is_short and output.reason is StopReason.END_OF_TEXT and answer.error is None:
            raise BackendError(
                f"the scripted reply {text!r} has {len(tokens)} tokens, min_tokens is {call.sampling.min_tokens}"
            )
        return output

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        """Log-probabilities under `next_logprobs`, or as `likes` has it."""
        self.scored.append(tuple(prefix))
        cached = self._remember(tuple(prefix))
        scores: list[Score] = []
        for continuation in continuations:
            logprobs = tuple(
                self._logprob((*prefix, *continuation[:position]), token)
                for position, token in enumerate(continuation)
            )
            usage = Usage(prompt_tokens=len(prefix), cached_tokens=cached, output_tokens=0)
            scores.append(Score(logprobs=logprobs, usage=usage))
        return scores

    def _logprob(self, before: tuple[int, ...], token: int) -> float:
        if self._next_logprobs is not None:
            return self._next_logprobs(before)[token]
        liked = self._liked_next(before)
        if liked is None:
            return -math.log(len(self.tokenizer))
        return math.log(0.9) if token == liked else math.log(0.1 / len(self.tokenizer))

    def _liked_next(self, before: tuple[int, ...]) -> int | None:
        """The next token of a liked text: of one that the text so far has begun, else of the first."""
        for text in self._likes:
            spelled = self.tokenizer.encode(text)
            for count in range(len(spelled), 0, -1):
                if before[-count:] == spelled[:count]:
                    return spelled[count] if count < len(spelled) else self.tokenizer.end_token_id
        return self.tokenizer.encode(self._likes[0])[0] if self._likes else None

    def _remember(self, tokens: tuple[int, ...]) -> int:
        """Add to the set of seen prefixes; how many tokens were there (never all: the last is computed)."""
        node = self._seen
        known = 0
        for token in tokens:
            child = node.get(token)
            if child is None:
                child = node[token] = {}
            else:
                known += 1
            assert isinstance(child, dict), "nodes map tokens to nodes"
            node = child
        return min(known, max(0, len(tokens) - 1))


def _text_of(reply: Reply) -> str:
    if isinstance(reply, str):
        return reply
    if isinstance(reply, BaseModel):
        return reply.model_dump_json()
    return json.dumps(reply, ensure_ascii=False, separators=(",", ":"))


def _healed(constraint: constraints.Constraint | None, text: str) -> str:
    """A script answers for the value; the text that healing took back from the prompt goes before it."""
    if isinstance(constraint, constraints.Sequence) and isinstance(constraint.parts[0], constraints.Text):
        return constraint.parts[0].text + text
    return text


def _logprobs(call: Call, token: int, logprob: float) -> tuple[TokenInfo, ...]:
    if call.sampling.logprobs is None:
        return ()
    chosen = TokenLogprob(token_id=token, logprob=logprob)
    return (TokenInfo(chosen=chosen, top=(chosen,)[: call.sampling.logprobs]),)
