"""/v1/chat/completions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from sgrt.server.auth import Caller
from sgrt.server.chat_plan import ChatPlan, plan_chat
from sgrt.server.endpoint import Incoming
from sgrt.server.logprobs import chat_logprobs
from sgrt.server.output import CallDelta, Delta, Ending
from sgrt.server.prompt_scores import check_prompt_logprobs, prompt_infos, wire_prompt_logprobs
from sgrt.server.replies import Reply, event, json_reply, stream_reply
from sgrt.server.service import Service
from sgrt.server.usage import UsageSum
from sgrt.server.validation import check_stream_options, ignored_header, parse
from sgrt.server.wire.chat import ChatRequest
from sgrt_frontend.call import TokenInfo


async def chat_completions(service: Service, incoming: Incoming) -> Reply:
    """Answer a chat, whole or in a stream."""
    request = parse(ChatRequest, incoming.body)
    headers = ignored_header(request)
    check_stream_options(request)
    check_prompt_logprobs(
        request.prompt_logprobs,
        is_stream=bool(request.stream),
        limit=service.config.limits.top_logprobs,
    )
    plan = await plan_chat(service, request, incoming.caller)
    headers |= plan.headers
    answer = _Answer(service=service, plan=plan, request=request, caller=incoming.caller)
    if not request.stream:
        return json_reply(await answer.whole(), headers=headers)
    return await stream_reply(answer.stream(), headers=headers)


@dataclass(slots=True, kw_only=True)
class _Choice:
    """What has been seen of one choice."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, list[CallDelta]] = field(default_factory=dict)
    logprobs: list[TokenInfo] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    ending: Ending | None = None

    def add(self, delta: Delta) -> None:
        """Take in one delta."""
        if delta.content:
            self.content.append(delta.content)
        if delta.reasoning:
            self.reasoning.append(delta.reasoning)
        if delta.call is not None:
            self.calls.setdefault(delta.call.position, []).append(delta.call)
        self.logprobs.extend(delta.logprobs)
        self.token_ids.extend(delta.token_ids)
        self.ending = delta.ending or self.ending

    @property
    def message(self) -> dict[str, object]:
        """The assistant's message. Content beside tool calls is null when there is none."""
        text = "".join(self.content)
        message: dict[str, object] = {
            "role": "assistant",
            "content": text if text or not self.calls else None,
            "refusal": None,
        }
        if self.reasoning:
            thoughts = "".join(self.reasoning)
            message |= {"reasoning": thoughts, "reasoning_content": thoughts}
        if self.calls:
            message["tool_calls"] = [_whole_call(pieces) for _, pieces in sorted(self.calls.items())]
        return message


def _whole_call(pieces: list[CallDelta]) -> dict[str, object]:
    head = pieces[0]
    arguments = "".join(piece.arguments for piece in pieces)
    return {
        "id": head.call_id,
        "type": "function",
        "function": {"name": head.name, "arguments": arguments},
    }


@dataclass(slots=True, kw_only=True)
class _Answer:
    """One request being answered."""

    service: Service
    plan: ChatPlan
    request: ChatRequest
    caller: Caller
    request_id: str = ""
    prompt_infos: tuple[TokenInfo, ...] = ()
    usage: UsageSum = field(default_factory=UsageSum)
    created: int = field(default_factory=lambda: int(time.time()))

    async def whole(self) -> dict[str, object]:
        """The chat.completion object."""
        choices = [_Choice() for _ in range(self.plan.num_choices)]
        async with aclosing(self._deltas()) as deltas:
            async for index, delta in deltas:
                choices[index].add(delta)
        body = self._head("chat.completion")
        body["choices"] = [self._whole_choice(index, choice) for index, choice in enumerate(choices)]
        body["usage"] = self.usage.wire
        if self.request.return_token_ids:
            body["prompt_token_ids"] = list(self.plan.call.prompt)
        if self.request.prompt_logprobs is not None:
            body["prompt_logprobs"] = wire_prompt_logprobs(self.prompt_infos, self.service.token_bytes)
        return body

    async def stream(self) -> AsyncGenerator[bytes]:
        """The events of a stream: one head per choice, deltas, one end per choice, usage if wanted."""
        started: set[int] = set()
        async with aclosing(self._deltas()) as deltas:
            async for index, delta in deltas:
                if index not in started:
                    started.add(index)
                    yield self._event(index, {"role": "assistant", "content": ""}, is_first=len(started) == 1)
                if delta.is_visible:
                    yield self._event(index, self._wire_delta(delta), delta=delta)
                if delta.ending is not None:
                    yield self._event(index, {}, ending=delta.ending)
        options = self.request.stream_options
        if options is not None and options.include_usage:
            yield event({**self._head("chat.completion.chunk"), "choices": [], "usage": self.usage.wire})

    async def _deltas(self) -> AsyncGenerator[tuple[int, Delta]]:
        with self.service.ticket("chatcmpl", self.caller.salt) as ticket:
            self.request_id = ticket.request_id
            found = self.plan.deltas(self.service, self.usage, ticket, first=self._score_prompt)
            async with aclosing(found) as deltas:
                async for item in deltas:
                    yield item

    async def _score_prompt(self) -> None:
        if self.request.prompt_logprobs is not None:
            self.prompt_infos = await prompt_infos(
                self.service,
                self.plan.call.prompt,
                self.plan.call.score_terms,
                top=self.request.prompt_logprobs,
                param="prompt_logprobs",
            )

    def _head(self, kind: str) -> dict[str, object]:
        return {
            "id": self.request_id,
            "object": kind,
            "created": self.created,
            "model": self.plan.model,
            "service_tier": None,
            "system_fingerprint": self.service.fingerprint,
        }

    def _whole_choice(self, index: int, choice: _Choice) -> dict[str, object]:
        assert choice.ending is not None, "an output ended without a finish"
        body: dict[str, object] = {
            "index": index,
            "message": choice.message,
            "logprobs": self._logprobs(choice.logprobs),
            "finish_reason": choice.ending.finish_reason,
            "stop_reason": choice.ending.stop_reason,
        }
        if self.request.return_token_ids:
            body["token_ids"] = choice.token_ids
        return body

    def _event(
        self,
        index: int,
        wire: dict[str, object],
        *,
        delta: Delta | None = None,
        ending: Ending | None = None,
        is_first: bool = False,
    ) -> bytes:
        choice: dict[str, object] = {
            "index": index,
            "delta": wire,
            "logprobs": self._logprobs(delta.logprobs) if delta and delta.logprobs else None,
            "finish_reason": ending.finish_reason if ending else None,
        }
        if ending is not None:
            choice["stop_reason"] = ending.stop_reason
        body = self._head("chat.completion.chunk")
        if self.request.return_token_ids:
            choice["token_ids"] = list(delta.token_ids) if delta else []
            if is_first:
                body["prompt_token_ids"] = list(self.plan.call.prompt)
        body["choices"] = [choice]
        options = self.request.stream_options
        if options is not None and options.include_usage:
            body["usage"] = self.usage.wire if options.continuous_usage_stats else None
        return event(body)

    def _wire_delta(self, delta: Delta) -> dict[str, object]:
        if delta.call is not None:
            return {"tool_calls": [_wire_call(delta.call)]}
        if delta.reasoning:
            return {"reasoning": delta.reasoning, "reasoning_content": delta.reasoning}
        return {"content": delta.content}

    def _logprobs(self, infos: list[TokenInfo] | tuple[TokenInfo, ...]) -> dict[str, object] | None:
        if not self.request.logprobs:
            return None
        return {"content": chat_logprobs(infos, self.service.token_bytes), "refusal": None}


def _wire_call(call: CallDelta) -> dict[str, object]:
    """The head carries id, type and the whole name once; later pieces add to the arguments alone."""
    if not call.name:
        return {"index": call.position, "function": {"arguments": call.arguments}}
    return {
        "index": call.position,
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
