"""What a backend's pure functions returned during a run: enough to repeat the run without the backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from sgrt_frontend.backend import Backend
from sgrt_frontend.call import ORDINARY, Call, Chunk, Description, Message, Score, ScoreTerms
from sgrt_frontend.spelling import Spelling

Rendered = tuple[tuple[Message, ...], bool]


@dataclass(slots=True, kw_only=True)
class Memo:
    """Results by argument. It grows with the constants of a run (of all runs of a batch, which share it)."""

    description: Description
    begin_tokens: tuple[int, ...] = ()
    encoded: dict[tuple[str, bool, bool], tuple[int, ...]] = field(default_factory=dict)
    decoded: dict[tuple[int, ...], str] = field(default_factory=dict)
    rendered: dict[Rendered, tuple[int, ...]] = field(default_factory=dict)


class RememberingBackend:
    """A backend with a memo of its pure functions."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.memo = Memo(description=backend.describe(), begin_tokens=backend.begin_tokens())

    def describe(self) -> Description:
        """What runs here."""
        return self.memo.description

    def begin_tokens(self) -> tuple[int, ...]:
        """What every prompt starts with."""
        return self.memo.begin_tokens

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        """Token ids of a text."""
        key = (text, special, is_start)
        tokens = self.memo.encoded.get(key)
        if tokens is None:
            tokens = self.memo.encoded[key] = self._backend.encode(text, special=special, is_start=is_start)
        return tokens

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens."""
        key = tuple(token_ids)
        text = self.memo.decoded.get(key)
        if text is None:
            text = self.memo.decoded[key] = self._backend.decode(key)
        return text

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        """Token ids of a chat."""
        key = (tuple(messages), open_assistant)
        tokens = self.memo.rendered.get(key)
        if tokens is None:
            tokens = self._backend.render(messages, open_assistant=open_assistant)
            self.memo.rendered[key] = tokens
        return tokens

    def spelling(self) -> Spelling:
        """The vocabulary's bytes."""
        return self._backend.spelling()

    def generate(self, call: Call) -> AsyncIterator[Chunk]:
        """Run a call."""
        return self._backend.generate(call)

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        """Log-probabilities."""
        return await self._backend.score(prefix, continuations, terms)
