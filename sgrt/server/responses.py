"""/v1/responses: the same generation as a chat, told as items, and kept for a while under its id."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from sgrt.server.chat_plan import ChatPlan, plan_chat
from sgrt.server.endpoint import Incoming
from sgrt.server.errors import from_exception
from sgrt.server.output import Delta
from sgrt.server.replies import Reply, json_reply, stream_reply
from sgrt.server.response_store import Stored
from sgrt.server.responses_input import chat_request, conversation, wants_logprobs
from sgrt.server.responses_output import Json, ResponseWriter
from sgrt.server.service import Service, Ticket
from sgrt.server.usage import UsageSum
from sgrt.server.validation import ignored_header, parse
from sgrt.server.wire.chat import ChatMessage, FunctionCall, ToolCall
from sgrt.server.wire.responses import ResponsesRequest


async def create_response(service: Service, incoming: Incoming) -> Reply:
    """Answer with a response, whole or as events."""
    request = parse(ResponsesRequest, incoming.body)
    headers = ignored_header(request)
    owner = incoming.caller.salt
    earlier: list[ChatMessage] = []
    if request.previous_response_id is not None:
        found = service.responses.get(request.previous_response_id, owner, param="previous_response_id")
        earlier = found.messages
    messages = conversation(request, earlier)
    chat = chat_request(request, messages)
    plan = await plan_chat(service, chat, incoming.caller)
    headers |= plan.headers
    answer = _Answer(service=service, request=request, plan=plan, messages=messages, owner=owner)
    if not request.stream:
        return json_reply(await answer.whole(), headers=headers)
    return await stream_reply(answer.stream(), headers=headers, last_event=b"")


async def read_response(service: Service, incoming: Incoming) -> Reply:
    """A response that was kept."""
    name = incoming.path_params["response_id"]
    return json_reply(service.responses.get(name, incoming.caller.salt, param="response_id").body)


async def delete_response(service: Service, incoming: Incoming) -> Reply:
    """Forget a response."""
    name = incoming.path_params["response_id"]
    service.responses.remove(name, incoming.caller.salt)
    return json_reply({"id": name, "object": "response.deleted", "deleted": True})


async def cancel_response(service: Service, incoming: Incoming) -> Reply:
    """End a response that is being written, by the id its events name."""
    name = incoming.path_params["response_id"]
    if service.abort(name, owner=incoming.caller.salt):
        return json_reply({"id": name, "object": "response", "status": "cancelled"})
    return json_reply(service.responses.get(name, incoming.caller.salt, param="response_id").body)


@dataclass(slots=True, kw_only=True)
class _Answer:
    """One request being answered."""

    service: Service
    request: ResponsesRequest
    plan: ChatPlan
    messages: list[ChatMessage]
    owner: str
    usage: UsageSum = field(default_factory=UsageSum)
    created: int = field(default_factory=lambda: int(time.time()))

    async def whole(self) -> Json:
        """The response object."""
        with self.service.ticket("resp", self.owner) as ticket:
            writer = self._writer(ticket)
            finish_reason = ""
            async with aclosing(self.plan.deltas(self.service, self.usage, ticket)) as deltas:
                async for _, delta in deltas:
                    for _event in writer.add(delta):
                        pass
                    finish_reason = _reason(delta) or finish_reason
            for _event in writer.finish(finish_reason, self.usage):
                pass
            return self._keep(ticket, writer, finish_reason)

    async def stream(self) -> AsyncGenerator[bytes]:
        """The events. A failure after the first token is an event too."""
        with self.service.ticket("resp", self.owner) as ticket:
            writer = self._writer(ticket)
            finish_reason = ""
            async with aclosing(self.plan.deltas(self.service, self.usage, ticket)) as deltas:
                first = await anext(deltas)  # before any event: what is refused late is still a 400
                for item in writer.start():
                    yield item
                try:
                    for item in writer.add(first[1]):
                        yield item
                    finish_reason = _reason(first[1])
                    async for _, delta in deltas:
                        for item in writer.add(delta):
                            yield item
                        finish_reason = _reason(delta) or finish_reason
                except Exception as error:  # noqa: BLE001 told to the client, which has its 200 already
                    refusal = from_exception(error)
                    yield writer.fail(refusal.code or "server_error", refusal.message)
                    return
            for item in writer.finish(finish_reason, self.usage):
                yield item
            self._keep(ticket, writer, finish_reason)

    def _writer(self, ticket: Ticket) -> ResponseWriter:
        return ResponseWriter(
            self._head(ticket),
            self.service.token_bytes,
            has_logprobs=wants_logprobs(self.request),
        )

    def _head(self, ticket: Ticket) -> Json:
        request = self.request
        text_format: Json = {"type": "text"}
        if request.text is not None and request.text.format is not None:
            text_format = request.text.format.model_dump(by_alias=True, exclude_none=True)
        return {
            "id": ticket.request_id,
            "object": "response",
            "created_at": self.created,
            "model": self.plan.model,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": request.previous_response_id,
            "reasoning": {"effort": request.reasoning.effort if request.reasoning else None, "summary": None},
            "store": request.store is not False,
            "temperature": 1.0 if request.temperature is None else request.temperature,
            "text": {"format": text_format},
            "tool_choice": _wire_choice(request),
            "tools": [_wire_tool(tool.model_dump(exclude_none=True)) for tool in request.tools or ()],
            "top_p": 1.0 if request.top_p is None else request.top_p,
            "truncation": request.truncation or "disabled",
            "user": request.user,
            "background": False,
            "service_tier": "default",
        }

    def _keep(self, ticket: Ticket, writer: ResponseWriter, finish_reason: str) -> Json:
        status = "incomplete" if finish_reason == "length" else "completed"
        body = writer.response(status, self.usage)
        if self.request.store is not False:
            said = [*self.messages, *_as_messages(writer.items)]
            self.service.responses.put(ticket.request_id, Stored(owner=self.owner, body=body, messages=said))
        return body


def _reason(delta: Delta) -> str:
    return delta.ending.finish_reason if delta.ending else ""


def _wire_choice(request: ResponsesRequest) -> object:
    if request.tool_choice is None or isinstance(request.tool_choice, str):
        return request.tool_choice or "auto"
    return request.tool_choice.model_dump()


def _wire_tool(tool: Json) -> Json:
    """A tool as strict clients want it back: every field is there."""
    return {"description": None, "parameters": None, "strict": False, **tool}


def _as_messages(items: list[Json]) -> list[ChatMessage]:
    """The output as the assistant's turn of a conversation; thoughts are left out."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    for item in items:
        if item["type"] == "message":
            content = item["content"]
            assert isinstance(content, list), "messages hold parts"
            texts += [str(part["text"]) for part in content]
        elif item["type"] == "function_call":
            function = FunctionCall(name=str(item["name"]), arguments=str(item["arguments"]))
            calls.append(ToolCall(id=str(item["call_id"]), type="function", function=function))
    text = "".join(texts)
    if not text and not calls:
        return []
    return [ChatMessage(role="assistant", content=text or None, tool_calls=calls or None)]
