"""The seam between programs and whatever runs them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from sgrt_frontend.call import ORDINARY, Call, Chunk, Description, Message, Score, ScoreTerms
from sgrt_frontend.spelling import Spelling


class Backend(Protocol):
    """Encodes constants, renders chats, generates and scores.

    Implemented by `sgrt.Engine` (in process), `HttpBackend` (a running server) and
    `ScriptedBackend` (tests). All methods may be called from any event loop.
    """

    def describe(self) -> Description:
        """What runs here."""
        ...

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        """Token ids of `text`, without a begin token. Text of users never becomes a special token;
        `special=True` is for template text, whose marks do. `is_start`: the text opens a prompt, behind the begin
        tokens if there are any; models that were trained with a space before every text get one there.
        """
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens; special tokens are left out, broken UTF-8 becomes U+FFFD."""
        ...

    def spelling(self) -> Spelling:
        """The bytes of every token, indexed; built once and kept. `select` sums over spellings with it."""
        ...

    def begin_tokens(self) -> tuple[int, ...]:
        """What every prompt starts with: the model's begin-of-text token, or nothing."""
        ...

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        """Token ids of a chat under the model's own template, message contents encoded as plain text.

        Raises:
            InvalidRequest: the model has no chat template, or it refuses these messages.
        """
        ...

    def generate(self, call: Call) -> AsyncIterator[Chunk]:
        """Run a call. Closing the iterator early cancels the call and frees its pages."""
        ...

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        """Log-probabilities of each continuation after `prefix`, which is computed once.

        The prefix has a token at least. No continuations have no scores, and an empty one has no log-probabilities.
        `terms` say how they
        stand beside other calls.
        """
        ...
