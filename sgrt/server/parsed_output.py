"""Deltas of an output in which thoughts, answer and tool calls are told apart."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable
from dataclasses import replace

from sgrt.server.marks import MarkedText
from sgrt.server.output import CallDelta, Delta, Ending, ending_of
from sgrt_frontend.call import Chunk
from sgrt_frontend.stop_search import StopSearch
from sgrt_grammars.tools.events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning
from sgrt_grammars.tools.parser import OutputParser

_ALPHABET = string.ascii_letters + string.digits


def new_call_id(length: int = 0) -> str:
    """An id no other call has. Some families' templates demand nine letters and digits."""
    if length:
        return "".join(secrets.choice(_ALPHABET) for _ in range(length))
    return f"call_{secrets.token_hex(12)}"


class ParsedReader:
    """Splits one output. Stop strings apply to the answer alone, never to thoughts or calls, and not before
    `min_tokens` of all these together.

    `is_named`: the request asked for one function by name, which ends with `stop`. `closes_calls_only`: the
    constraint closes calls but not free text, so a budget that ends free text cut it.
    """

    def __init__(
        self,
        parser: OutputParser,
        stops: StopSearch,
        *,
        min_tokens: int,
        marked: MarkedText | None,
        is_named: bool,
        closes_calls_only: bool,
        new_id: Callable[[], str],
    ) -> None:
        self._parser = parser
        self._stops = stops
        self._min_tokens = min_tokens
        self._marked = marked
        self._is_named = is_named
        self._closes_calls_only = closes_calls_only
        self._new_id = new_id
        self._position = -1
        self._num_done = 0
        self._is_in_text = True
        self._num_tokens = 0
        self.num_reasoning_tokens = 0

    def read(self, chunk: Chunk) -> list[Delta]:
        """The deltas of one chunk. A stop string in the answer ends the output before the backend does."""
        deltas: list[Delta] = []
        for part in self._parts(chunk):
            self._read_part(part, deltas)
            if self._stops.stop is not None:
                break
        if self._stops.stop is not None:
            word = "tool_calls" if self._has_calls else "stop"
            deltas.append(Delta(ending=Ending(finish_reason=word, stop_reason=self._stops.stop)))
        elif chunk.finish is not None:
            if held := self._stops.flush():
                deltas.append(Delta(content=held))
            is_cut = self._closes_calls_only and self._is_in_text
            deltas.append(Delta(ending=ending_of(chunk.finish, has_calls=self._has_calls, is_cut=is_cut)))
        return _with_tokens(deltas, chunk)

    def _parts(self, chunk: Chunk) -> list[Chunk]:
        """The chunk token by token, if its text can be told apart.

        How many tokens are thoughts, and where a stop becomes allowed, does not depend on what was gathered.
        """
        if self._marked is None or len(chunk.token_ids) <= 1:
            return [chunk]
        last = len(chunk.token_ids) - 1
        return [
            Chunk(index=chunk.index, token_ids=(token,), finish=chunk.finish if place == last else None)
            for place, token in enumerate(chunk.token_ids)
        ]

    def _read_part(self, part: Chunk, deltas: list[Delta]) -> None:
        text = self._marked.read(part.token_ids) if self._marked else part.text
        events = self._parser.feed(text)
        if part.finish is not None:
            events += self._parser.finish()
        if events and all(isinstance(event, Reasoning) for event in events):
            self.num_reasoning_tokens += len(part.token_ids)
        self._num_tokens += len(part.token_ids)
        self._add(events, deltas, may_stop=self._num_tokens >= self._min_tokens)

    def _add(self, events: list[Event], deltas: list[Delta], *, may_stop: bool) -> None:
        for event in events:
            if isinstance(event, Content):
                self._is_in_text = True
                shown = self._stops.feed(event.text, may_stop=may_stop)
                if shown:
                    deltas.append(Delta(content=shown))
                if self._stops.stop is not None:
                    return
            else:
                held = self._stops.flush()  # text before a call or a thought does not go on behind it
                if held:
                    deltas.append(Delta(content=held))
                self._add_other(event, deltas)

    def _add_other(self, event: Event, deltas: list[Delta]) -> None:
        if isinstance(event, Reasoning):
            deltas.append(Delta(reasoning=event.text))
        elif isinstance(event, CallStart):
            self._position += 1
            self._is_in_text = False
            call = CallDelta(position=self._position, call_id=self._new_id(), name=event.name)
            deltas.append(Delta(call=call))
        elif isinstance(event, CallArguments):
            deltas.append(Delta(call=CallDelta(position=self._position, arguments=event.text)))
        elif isinstance(event, CallEnd):
            self._num_done += 1

    @property
    def _has_calls(self) -> bool:
        return self._num_done > 0 and not self._is_named


def _with_tokens(deltas: list[Delta], chunk: Chunk) -> list[Delta]:
    """Put a chunk's tokens and log-probabilities on its first delta, or on one of their own."""
    if not chunk.token_ids and not chunk.logprobs:
        return deltas
    if deltas and deltas[0].ending is None:
        first = replace(deltas[0], token_ids=chunk.token_ids, logprobs=chunk.logprobs)
        return [first, *deltas[1:]]
    return [Delta(token_ids=chunk.token_ids, logprobs=chunk.logprobs), *deltas]
