"""Reads one tool call by the parts of its format."""

from __future__ import annotations

import html
import json
from collections.abc import Generator, Mapping, Sequence

from sgrt_grammars.tools.events import CallArguments, CallEnd, CallStart, Event
from sgrt_grammars.tools.parts import (
    BareObject,
    JsonArguments,
    JsonCall,
    Mark,
    Name,
    Part,
    PythonArguments,
    Space,
    TaggedArguments,
    Word,
)
from sgrt_grammars.tools.scanner import Scanner, ignore
from sgrt_grammars.tools.values import Json, Malformed, bare_object, json_object, python_arguments, typed

Process = Generator[None, None, None]
Schemas = Mapping[str, Mapping[str, object]]


class NotACall(Exception):
    """The text is no complete call of a known tool."""


class CallReader:
    """Reads calls, one after the other. With `live`, events go there as soon as they are known."""

    def __init__(self, scanner: Scanner, schemas: Schemas, live: list[Event] | None) -> None:
        self._scanner = scanner
        self._schemas = schemas
        self._live = live
        self._name = ""
        self._arguments: list[str] = []

    @property
    def has_started(self) -> bool:
        """Whether the latest call was already announced."""
        return self._live is not None and bool(self._name)

    def read(self, parts: Sequence[Part]) -> Generator[None, None, list[Event]]:
        """Read one call; returns its events that were not sent live.

        Raises:
            NotACall: the text does not follow the parts, ends early, or names no known tool.
        """
        self._name = ""
        self._arguments = []
        for part in parts:
            yield from self._part(part)
        return self._finished()

    def _part(self, part: Part) -> Process:
        if isinstance(part, Mark):
            yield from self._mark(part)
        elif isinstance(part, Space):
            yield from self._scanner.spaces()
        elif isinstance(part, Name):
            yield from self._read_name(part)
        elif isinstance(part, JsonArguments):
            yield from self._json_arguments()
        elif isinstance(part, JsonCall):
            yield from self._json_call(part)
        elif isinstance(part, TaggedArguments):
            yield from self._tagged(part)
        elif isinstance(part, Word):
            if (yield from self._scanner.word(part.ends)) is None:
                raise NotACall
        else:
            yield from self._notation(part)

    def _mark(self, part: Mark) -> Process:
        found = yield from self._scanner.accept([part.text])
        if found is None and not part.is_optional:
            raise NotACall

    def _read_name(self, part: Name) -> Process:
        if part.prefix:
            yield from self._scanner.accept([part.prefix])
        word = yield from self._scanner.word(part.ends)
        if word is None:
            raise NotACall
        name = word.strip()
        if part.counter:
            head, separator, number = name.rpartition(part.counter)
            name = head if separator and number.isdigit() else name
        self._know(name)

    def _know(self, name: object) -> None:
        if not isinstance(name, str) or name not in self._schemas:
            raise NotACall
        self._name = name
        if self._live is not None:
            self._live.append(CallStart(name))
            self._live.extend(CallArguments(text) for text in self._arguments)

    def _json_arguments(self) -> Process:
        yield from self._scanner.spaces()
        if (yield from self._scanner.stands(["{"])) is None or not (
            yield from self._scanner.json_value(self._give)
        ):
            raise NotACall

    def _give(self, text: str) -> None:
        self._arguments.append(text)
        if self._live is not None and self._name:
            self._live.append(CallArguments(text))

    def _json_call(self, part: JsonCall) -> Process:
        """An object with name and arguments, in whichever order."""
        yield from self._scanner.spaces()
        yield from self._need("{")
        while True:
            yield from self._scanner.spaces()
            key = yield from self._text()
            yield from self._scanner.spaces()
            yield from self._need(":")
            if key in part.name_keys and not self._name:
                name = yield from self._text()
                self._know(name)
            elif key in part.argument_keys:
                self._need_value((yield from self._scanner.json_value(self._give)))
            else:
                self._need_value((yield from self._scanner.json_value(ignore)))
            yield from self._scanner.spaces()
            if (yield from self._scanner.accept(["}"])) is not None:
                break
            yield from self._need(",")
        if not self._name or (part.needs_arguments and not self._arguments):
            raise NotACall

    def _text(self) -> Generator[None, None, str]:
        pieces: list[str] = []
        self._need_value((yield from self._scanner.json_value(pieces.append)))
        try:
            value = json.loads("".join(pieces))
        except ValueError:
            raise NotACall from None
        if not isinstance(value, str):
            raise NotACall
        return value

    def _need(self, text: str) -> Process:
        if (yield from self._scanner.accept([text])) is None:
            raise NotACall

    def _need_value(self, is_whole: bool) -> None:
        if not is_whole:
            raise NotACall

    def _tagged(self, part: TaggedArguments) -> Process:
        """Tag after tag, until something else stands there."""
        properties = self._schemas[self._name].get("properties")
        types = properties if isinstance(properties, Mapping) else {}
        found: dict[str, Json] = {}
        yield from self._scanner.spaces()
        while (yield from self._scanner.accept([part.before])) is not None:
            key = yield from self._tag_key(part)
            kind = yield from self._tag_type(part)
            pieces: list[str] = []
            yield from self._tag_value(part, pieces)
            text = _unpadded("".join(pieces), part.padding)
            found[key] = _tag_json(text, kind, types.get(key), part)
            yield from self._scanner.spaces()
        self._give(json.dumps(found, ensure_ascii=False))

    def _tag_key(self, part: TaggedArguments) -> Generator[None, None, str]:
        end = part.attribute.before if part.attribute else part.between[0]
        key = yield from self._scanner.word([end])
        if key is None:
            raise NotACall
        for mark in (end,) if part.attribute else part.between:
            yield from self._scanner.spaces()
            yield from self._need(mark)
        return html.unescape(key) if part.is_escaped else key.strip()

    def _tag_type(self, part: TaggedArguments) -> Generator[None, None, str]:
        if part.attribute is None:
            return ""
        kind = yield from self._scanner.word([part.attribute.after])
        if kind is None:
            raise NotACall
        yield from self._need(part.attribute.after)
        return kind

    def _tag_value(self, part: TaggedArguments, pieces: list[str]) -> Process:
        """A value up to its end mark, which counts only where one of the marks that may follow comes next."""
        while True:
            mark = yield from self._scanner.until([part.after], pieces.append)
            if mark is None:
                raise NotACall
            spaces: list[str] = []
            yield from self._scanner.spaces(spaces.append)
            if (yield from self._scanner.stands(part.follows)) is not None:
                return
            pieces.extend([mark, *spaces])

    def _notation(self, part: PythonArguments | BareObject) -> Process:
        pieces: list[str] = []
        if isinstance(part, PythonArguments):
            is_whole = yield from self._scanner.brackets(pieces.append, ("'", '"'))
        else:
            is_whole = yield from self._scanner.brackets(pieces.append, (part.quote,), escapes=False)
        self._need_value(is_whole)
        text = "".join(pieces)
        try:
            value = (
                python_arguments(text) if isinstance(part, PythonArguments) else bare_object(text, part.quote)
            )
        except Malformed:
            raise NotACall from None
        self._give(json.dumps(value, ensure_ascii=False))

    def _finished(self) -> list[Event]:
        """The call is over: its arguments must be an object."""
        text = "".join(self._arguments).strip() or "{}"
        try:
            value = json_object(text)
        except Malformed:
            raise NotACall from None
        if not text.startswith("{"):
            text = json.dumps(value, ensure_ascii=False)
        if self._live is not None:
            return [CallEnd()] if self._arguments else [CallArguments(text), CallEnd()]
        return [CallStart(self._name), CallArguments(text), CallEnd()]


def _unpadded(text: str, padding: str) -> str:
    if not padding:
        return text
    return text.removeprefix(padding).removesuffix(padding)


def _tag_json(text: str, kind: str, schema: object, part: TaggedArguments) -> Json:
    if part.attribute is None:
        return typed(text, schema)
    return text if kind == part.attribute.string else typed(text, {})
