"""Builds a response item by item, and the events that tell of it: every item is opened and closed once."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from sgrt.server.logprobs import TokenBytes, chat_logprobs
from sgrt.server.output import CallDelta, Delta
from sgrt.server.replies import event
from sgrt.server.usage import UsageSum
from sgrt_frontend.call import TokenInfo

Json = dict[str, object]


class ItemKind(Enum):
    """What an output item is."""

    MESSAGE = "message"
    REASONING = "reasoning"
    CALL = "function_call"


_ID_PREFIX = {ItemKind.MESSAGE: "msg", ItemKind.REASONING: "rs", ItemKind.CALL: "fc"}
_TEXT_EVENTS = {ItemKind.MESSAGE: "response.output_text", ItemKind.REASONING: "response.reasoning_text"}


@dataclass(slots=True, kw_only=True)
class Item:
    """An output item being written."""

    kind: ItemKind
    index: int
    call_id: str = ""
    name: str = ""
    item_id: str = ""
    pieces: list[str] = field(default_factory=list)
    infos: list[TokenInfo] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.item_id = f"{_ID_PREFIX[self.kind]}_{secrets.token_hex(16)}"

    @property
    def text(self) -> str:
        """What was written so far."""
        return "".join(self.pieces)


class ResponseWriter:
    """Takes deltas and gives events; keeps the items for the whole response."""

    def __init__(self, head: Json, token_bytes: TokenBytes, *, has_logprobs: bool) -> None:
        self._head = head
        self._token_bytes = token_bytes
        self._has_logprobs = has_logprobs
        self._sequence = 0
        self._done: list[Json] = []
        self._item: Item | None = None

    def start(self) -> Iterator[bytes]:
        """The events before any output."""
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, {"response": self.response("in_progress", None)})

    def add(self, delta: Delta) -> Iterator[bytes]:
        """The events of one delta."""
        if delta.call is not None:
            yield from self._add_call(delta.call)
        elif delta.reasoning:
            yield from self._add_text(ItemKind.REASONING, delta.reasoning, ())
        elif delta.content:
            yield from self._add_text(ItemKind.MESSAGE, delta.content, delta.logprobs)

    def finish(self, finish_reason: str, usage: UsageSum) -> Iterator[bytes]:
        """The last events. A response without any output still has its (empty) message."""
        if self._item is None and not self._done:
            yield from self._open(Item(kind=ItemKind.MESSAGE, index=0))
        is_cut = finish_reason == "length"
        yield from self._close("incomplete" if is_cut else "completed")
        status = "incomplete" if is_cut else "completed"
        yield self._event(f"response.{status}", {"response": self.response(status, usage)})

    def fail(self, code: str, message: str) -> bytes:
        """The event that ends a response that failed."""
        body = {**self.response("failed", None), "error": {"code": code, "message": message}}
        return self._event("response.failed", {"response": body})

    def response(self, status: str, usage: UsageSum | None) -> Json:
        """The response object as it stands."""
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            **self._head,
            "status": status,
            "error": None,
            "incomplete_details": details,
            "output": list(self._done),
            "usage": None if usage is None else wire_usage(usage),
        }

    @property
    def items(self) -> list[Json]:
        """The items that are complete."""
        return self._done

    def _add_text(self, kind: ItemKind, text: str, infos: tuple[TokenInfo, ...]) -> Iterator[bytes]:
        if self._item is None or self._item.kind is not kind:
            yield from self._close("completed")
            yield from self._open(Item(kind=kind, index=len(self._done)))
        item = self._item
        assert item is not None, "an item was opened"
        item.pieces.append(text)
        item.infos.extend(infos)
        fields = {**self._place(item), "content_index": 0, "delta": text}
        if kind is ItemKind.MESSAGE:
            fields["logprobs"] = self._logprobs(infos)
        yield self._event(f"{_TEXT_EVENTS[kind]}.delta", fields)

    def _add_call(self, call: CallDelta) -> Iterator[bytes]:
        if call.name:
            yield from self._close("completed")
            item = Item(kind=ItemKind.CALL, index=len(self._done), call_id=call.call_id, name=call.name)
            yield from self._open(item)
        item_now = self._item
        assert item_now is not None, "a call's head comes before its arguments"
        if call.arguments:
            item_now.pieces.append(call.arguments)
            fields = {**self._place(item_now), "delta": call.arguments}
            yield self._event("response.function_call_arguments.delta", fields)

    def _open(self, item: Item) -> Iterator[bytes]:
        self._item = item
        wire = self._wire(item, "in_progress", is_empty=True)
        yield self._event("response.output_item.added", {"output_index": item.index, "item": wire})
        if item.kind is not ItemKind.CALL:
            fields = {**self._place(item), "content_index": 0, "part": self._part(item, "")}
            yield self._event("response.content_part.added", fields)

    def _close(self, status: str) -> Iterator[bytes]:
        item, self._item = self._item, None
        if item is None:
            return
        place = self._place(item)
        if item.kind is ItemKind.CALL:
            fields = {**place, "name": item.name, "arguments": item.text}
            yield self._event("response.function_call_arguments.done", fields)
        else:
            text_done: Json = {**place, "content_index": 0, "text": item.text}
            if item.kind is ItemKind.MESSAGE:
                text_done["logprobs"] = self._logprobs(tuple(item.infos))
            yield self._event(f"{_TEXT_EVENTS[item.kind]}.done", text_done)
            part = {**place, "content_index": 0, "part": self._part(item, item.text)}
            yield self._event("response.content_part.done", part)
        wire = self._wire(item, status, is_empty=False)
        self._done.append(wire)
        yield self._event("response.output_item.done", {"output_index": item.index, "item": wire})

    def _place(self, item: Item) -> Json:
        return {"item_id": item.item_id, "output_index": item.index}

    def _wire(self, item: Item, status: str, *, is_empty: bool) -> Json:
        body: Json = {"id": item.item_id, "type": item.kind.value, "status": status}
        parts = [] if is_empty else [self._part(item, item.text)]
        if item.kind is ItemKind.MESSAGE:
            return {**body, "role": "assistant", "content": parts}
        if item.kind is ItemKind.REASONING:
            return {**body, "summary": [], "content": parts}
        arguments = "" if is_empty else item.text
        return {**body, "call_id": item.call_id, "name": item.name, "arguments": arguments}

    def _part(self, item: Item, text: str) -> Json:
        if item.kind is ItemKind.REASONING:
            return {"type": "reasoning_text", "text": text}
        logprobs = self._logprobs(tuple(item.infos)) if text else []
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}

    def _logprobs(self, infos: tuple[TokenInfo, ...]) -> list[Json]:
        return chat_logprobs(infos, self._token_bytes) if self._has_logprobs else []

    def _event(self, kind: str, fields: Json) -> bytes:
        body = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return event(body, name=kind)


def wire_usage(usage: UsageSum) -> Json:
    """Token counts as this API spells them."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
