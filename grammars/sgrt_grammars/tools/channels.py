"""Reads an output made of messages with headers: channels and recipients."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from sgrt_grammars.tools.call_reader import CallReader, NotACall
from sgrt_grammars.tools.events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning
from sgrt_grammars.tools.format import ChannelFormat
from sgrt_grammars.tools.scanner import Scanner, ignore
from sgrt_grammars.tools.values import Malformed, json_object

Process = Generator[None, None, None]
_HEADER_CHARS = 1024


def read_channels(
    form: ChannelFormat,
    scanner: Scanner,
    events: list[Event],
    schemas: Mapping[str, Mapping[str, object]],
    *,
    streams_arguments: bool,
) -> Process:
    """Read to the end: header, body, header, body."""
    reader = _Messages(form, scanner, events, schemas, streams_arguments)
    while not (yield from scanner.is_at_end()):
        yield from reader.message()


class _Messages:
    """The coroutine over one output."""

    def __init__(
        self,
        form: ChannelFormat,
        scanner: Scanner,
        events: list[Event],
        schemas: Mapping[str, Mapping[str, object]],
        streams_arguments: bool,
    ) -> None:
        self._form = form
        self._scanner = scanner
        self._events = events
        self._schemas = schemas
        self._streams = streams_arguments
        self._num_messages = 0

    def message(self) -> Process:
        """One message."""
        header: list[str] = []
        mark = yield from self._scanner.until((self._form.message, *self._form.ends), header.append)
        if mark != self._form.message:
            return  # a header without a message says nothing
        self._num_messages += 1
        channel, recipient = self._read_header("".join(header))
        if recipient is not None and recipient.startswith(self._form.function_prefix):
            yield from self._call(recipient.removeprefix(self._form.function_prefix))
        elif recipient is not None:
            yield from self._scanner.until(self._form.ends, ignore)  # a built-in tool nobody offered
        elif channel in self._form.reasoning_channels:
            yield from self._body(Reasoning)
        elif channel in self._form.content_channels:
            yield from self._body(Content)
        else:
            yield from self._scanner.until(self._form.ends, ignore)

    def _read_header(self, header: str) -> tuple[str, str | None]:
        """The channel, and the function that is called if there is one."""
        channel = ""
        if self._form.channel in header:
            after = header.rpartition(self._form.channel)[2]
            words = after.replace(self._form.constrain, " ").split()
            channel = words[0] if words else ""
        recipient = None
        if self._form.recipient in header:
            rest = header.partition(self._form.recipient)[2]
            recipient = rest.replace("<", " ").split(" ")[0]
        return channel, recipient

    def _body(self, kind: type[Reasoning] | type[Content]) -> Process:
        def give(text: str) -> None:
            self._events.append(kind(text))

        yield from self._scanner.until(self._form.ends, give)

    def _call(self, name: str) -> Process:
        """The body of a call: a JSON object up to the end of the message."""
        pieces: list[str] = []
        is_known = name in self._schemas
        if is_known and self._streams:
            self._events.append(CallStart(name))

        def give(text: str) -> None:
            pieces.append(text)
            if is_known and self._streams:
                self._events.append(CallArguments(text))

        is_whole = yield from self._scanner.json_value(give)
        if is_known and is_whole:
            self._events.extend(self._finished(name, "".join(pieces)))
        yield from self._scanner.until(self._form.ends, ignore)

    def _finished(self, name: str, text: str) -> list[Event]:
        try:
            json_object(text)
        except Malformed:
            return []
        return [CallEnd()] if self._streams else [CallStart(name), CallArguments(text), CallEnd()]


__all__ = ["CallReader", "NotACall", "read_channels"]
