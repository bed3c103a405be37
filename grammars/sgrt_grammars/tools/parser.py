"""The streaming parser of a format: text goes in as it comes, events come out as soon as they are certain."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from sgrt_grammars.tools.call_reader import CallReader, NotACall
from sgrt_grammars.tools.channels import read_channels
from sgrt_grammars.tools.events import CallArguments, Content, Event, Reasoning
from sgrt_grammars.tools.format import CallFormat, ChannelFormat, Format, Rejected, ToolFormat
from sgrt_grammars.tools.scanner import Scanner, ignore
from sgrt_grammars.tools.tool import Tool

Process = Generator[None, None, None]


class OutputParser:
    """Splits one output into content, reasoning and tool calls.

    `is_reasoning_open` says that the prompt ended inside the model's thoughts. With `streams_arguments` the
    arguments of a call are handed on while they come, which is safe where a grammar holds the model to its
    tools; without it a call appears only when it is complete and sound. With `tools` empty nothing is a call,
    and without `reads_reasoning` marks of thoughts are ordinary text.
    """

    def __init__(
        self,
        form: Format,
        tools: Sequence[Tool] = (),
        *,
        is_reasoning_open: bool = False,
        reads_reasoning: bool = True,
        streams_arguments: bool = False,
    ) -> None:
        self._scanner = Scanner()
        self._events: list[Event] = []
        schemas = {tool.name: tool.schema for tool in tools}
        if isinstance(form, ChannelFormat):
            self._process: Process = read_channels(
                form, self._scanner, self._events, schemas, streams_arguments=streams_arguments
            )
        else:
            form = form if reads_reasoning else replace(form, reasoning=None)
            reader = _Reader(form, self._scanner, self._events, schemas, streams_arguments)
            self._process = reader.read(is_reasoning_open=is_reasoning_open)
        self._is_done = False
        self._step()

    def feed(self, text: str) -> list[Event]:
        """What `text` makes certain."""
        self._scanner.feed(text)
        self._step()
        return self._taken()

    def finish(self) -> list[Event]:
        """What the end of the output makes certain. A call that is not complete is dropped."""
        self._scanner.close()
        self._step()
        return self._taken()

    def _step(self) -> None:
        if not self._is_done:
            try:
                next(self._process)
            except StopIteration:
                self._is_done = True

    def _taken(self) -> list[Event]:
        events = merged(self._events)
        self._events.clear()
        return events


def merged(events: Sequence[Event]) -> list[Event]:
    """The same events with neighbours of one kind joined, each text copied once."""
    if len(events) <= 1:
        return list(events)
    result: list[Event] = []
    for kind, run in groupby(events, key=type):
        if kind is Content or kind is Reasoning or kind is CallArguments:
            result.append(kind("".join(event.text for event in run if isinstance(event, kind))))
        else:
            result.extend(run)
    return result


class _Reader:
    """The coroutine that reads an output of a ToolFormat."""

    def __init__(
        self,
        form: ToolFormat,
        scanner: Scanner,
        events: list[Event],
        schemas: Mapping[str, Mapping[str, object]],
        streams_arguments: bool,
    ) -> None:
        self._form = form
        self._scanner = scanner
        self._events = events
        self._calls = form.calls if schemas else ()
        self._is_live = streams_arguments
        self._reader = CallReader(scanner, schemas, events if streams_arguments else None)
        self._has_content = False

    def read(self, *, is_reasoning_open: bool) -> Process:
        """Read to the end."""
        if is_reasoning_open and self._form.reasoning is not None:
            yield from self._reasoning()
        while not (yield from self._scanner.is_at_end()):
            yield from self._content()

    def _content(self) -> Process:
        """Content up to the next mark, and what the mark opens."""
        if (yield from self._call_at_start()):
            return
        reasoning = self._form.reasoning
        begins = {call.begin: None for call in self._calls if not call.only_at_start}
        marks = [*begins, *self._form.wrappers]
        if reasoning is not None:
            marks.append(reasoning.begin)
        if not marks:
            marks = ["\0"]
        mark = yield from self._scanner.until(marks, self._give, trims=self._form.trims_content)
        if mark is None or mark in self._form.wrappers:
            return
        if reasoning is not None and mark == reasoning.begin:
            yield from self._reasoning()
        else:
            yield from self._section(mark)

    def _call_at_start(self) -> Generator[None, None, bool]:
        """Read white space between marks, and a call that may only stand where content begins."""
        spaces: list[str] = []
        begins = [call.begin for call in self._calls if call.only_at_start]
        if self._form.trims_content or (begins and not self._has_content):
            yield from self._scanner.spaces(spaces.append)
        mark = (yield from self._scanner.stands(begins)) if begins and not self._has_content else None
        if mark is None:
            if spaces and (self._has_content or not self._form.trims_content):
                yield from self._keep_spaces("".join(spaces))
            return False
        record = self._scanner.record()
        if not any(call.begin == mark and call.is_begin_part for call in self._calls):
            yield from self._scanner.accept([mark])
        yield from self._section(mark, record)
        return True

    def _keep_spaces(self, spaces: str) -> Process:
        """White space in or before content is content, unless a mark follows and it is trimmed."""
        if not self._form.trims_content:
            self._give(spaces)
            return
        marks = [call.begin for call in self._calls] + list(self._form.wrappers)
        if not (yield from self._scanner.is_at_end()) and not (yield from self._scanner.stands(marks)):
            self._give(spaces)

    def _give(self, text: str) -> None:
        self._has_content = self._has_content or bool(text)
        self._events.append(Content(text))

    def _reasoning(self) -> Process:
        """Thoughts up to their end mark."""
        reasoning = self._form.reasoning
        assert reasoning is not None, "only a format with thoughts opens them"
        yield from self._scanner.spaces()
        if (yield from self._scanner.stands(self._form.wrappers)) is not None:
            return  # the prompt opened thoughts, but the model went straight to its answer
        yield from self._scanner.accept([reasoning.begin])
        if reasoning.header:
            yield from self._scanner.accept([reasoning.header])
        yield from self._scanner.spaces()
        calls = [call.begin for call in self._calls] if reasoning.ends_at_call else []
        mark = yield from self._scanner.until([reasoning.end, *calls], self._think, trims=True)
        if mark in calls:
            yield from self._section(mark)

    def _think(self, text: str) -> None:
        self._events.append(Reasoning(text))

    def _section(self, begin: str, record: list[str] | None = None) -> Process:
        """The calls that `begin` opens."""
        form = yield from self._choose(begin)
        events: list[Event] = self._events if self._is_live else []
        try:
            if form.call_begin:
                yield from self._marked_calls(form)
            elif form.end:
                yield from self._listed_calls(form, events)
            else:
                self._events.extend((yield from self._reader.read(form.parts)))
        except NotACall:
            yield from self._recover(form, record)
        else:
            if events is not self._events:
                self._events.extend(events)
            if self._form.trims_content and form.only_at_start:
                yield from self._scanner.spaces()

    def _marked_calls(self, form: CallFormat) -> Process:
        """Calls that each have a mark of their own, inside a section; what stands between them is noise."""
        while (yield from self._scanner.until([form.call_begin, form.end], ignore)) == form.call_begin:
            self._events.extend((yield from self._reader.read(form.parts)))

    def _listed_calls(self, form: CallFormat, events: list[Event]) -> Process:
        """Calls with separators between them. They count only once the list is closed."""
        while True:
            events.extend((yield from self._reader.read(form.parts)))
            yield from self._scanner.spaces()
            if (yield from self._scanner.accept([form.end])) is not None:
                return
            if (yield from self._scanner.accept([form.separator.strip()])) is None:
                raise NotACall
            yield from self._scanner.spaces()

    def _choose(self, begin: str) -> Generator[None, None, CallFormat]:
        """The way of writing that fits what follows `begin`: the first whose opening stands there."""
        forms = [call for call in self._calls if call.begin == begin]
        for form in forms:
            if not form.opening:
                return form
            yield from self._scanner.spaces()
            if (yield from self._scanner.accept([form.opening])):
                return form
        return forms[-1]

    def _recover(self, form: CallFormat, record: list[str] | None) -> Process:
        """Go on after text that is no call."""
        if form.rejected is Rejected.CONTENT and not self._reader.has_started:
            for text in record or ():
                self._give(text)
        elif form.last_mark:
            yield from self._scanner.until([form.last_mark], ignore)
