"""What all endpoints share: the backend, limits, counts, and the one way to run a call."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence, Set
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from sgrt.errors import ContextOverflow, DeadlineExceeded
from sgrt.server.admission import Admission
from sgrt.server.auth import Gatekeeper
from sgrt.server.config import ServerConfig
from sgrt.server.errors import ApiError, bad_request, from_exception
from sgrt.server.marks import Marks
from sgrt.server.metrics import ServerMetrics, StepSizes
from sgrt.server.output_clock import OutputClock
from sgrt.server.prompts import Renderer, template_of
from sgrt.server.response_store import ResponseStore
from sgrt.server.sessions import SessionStore
from sgrt.server.tool_setup import choose_format, has_reasoning
from sgrt.tokenizer.opening import opened
from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Call, Chunk, Score, ScoreTerms, StopReason

# A whole answer is read this often while it grows: that costs others less than a look at every token.
WHOLE_INTERVAL_S = 0.1
_INLINE_TOKENS = 512
_INLINE_CHARS = 512  # shorter texts are encoded faster than a thread is reached


@runtime_checkable
class HasStats(Protocol):
    """A backend that keeps numbers about itself."""

    def stats(self) -> Mapping[str, float]:
        """The numbers by metric stem; names that end in `_total` only grow."""
        ...


@runtime_checkable
class HasStepSizes(Protocol):
    """A backend that counts its steps by their tokens."""

    def step_sizes(self) -> StepSizes:
        """Bounds of tokens, steps up to each bound and behind the last, and the tokens of all."""
        ...


@runtime_checkable
class HasHealth(Protocol):
    """A backend that knows whether it can still work."""

    def is_healthy(self) -> bool:
        """Whether calls can be served."""
        ...


class Started(Protocol):
    """A call that runs: leaving its context ends it."""

    def __aiter__(self) -> AsyncIterator[Chunk]:
        """Its chunks, as they come."""
        ...

    def cancel_output(self, index: int) -> None:
        """End one output; the others go on."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class StartsCalls(Protocol):
    """A backend that can end one output of a call."""

    def submit(self, call: Call) -> Started:
        """Start a call."""
        ...


@runtime_checkable
class HasPrefixCache(Protocol):
    """A backend whose prefix cache can be emptied."""

    async def flush_cache(self) -> int:
        """Drop what nobody uses; returns how many tokens were dropped."""
        ...


@runtime_checkable
class HasSettings(Protocol):
    """A backend that says how it is set up."""

    def settings(self) -> Mapping[str, str | int]:
        """Names and values, automatic ones resolved."""
        ...


@runtime_checkable
class ScoresAlternatives(Protocol):
    """A backend that gives alternatives with scores."""

    async def score_alternatives(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        *,
        top: int,
        terms: ScoreTerms,
    ) -> list[Score]:
        """As `Backend.score`, with the `top` best tokens at each place."""
        ...


class Service:
    """One server's shared state. Handlers get it whole; only its parts change."""

    def __init__(
        self,
        backend: Backend,
        config: ServerConfig,
        clock: Callable[[], float] = time.monotonic,
        *,
        stands_in_for: Service | None = None,
    ) -> None:
        """With `stands_in_for` this is another model of the same server: limits and stores are shared, counts are
        exposed together, and requests may name the model that it answers for.
        """
        self.backend = backend
        self.config = config
        self.clock = clock
        self.description = backend.describe()
        main = stands_in_for
        self._names_answered = main.model_names if main is not None else ()
        self.gatekeeper: Gatekeeper = main.gatekeeper if main else Gatekeeper(config)
        self.metrics = ServerMetrics(
            model=self.model_names[0], clock=clock, read_engine=self._stats, read_steps=self._step_sizes
        )
        if main is not None:
            main.metrics.beside.append(self.metrics)
        self.admission: Admission = main.admission if main else self._new_admission()
        self.started_at = int(time.time())
        digest = hashlib.sha256(self.description.model.encode()).hexdigest()
        self.fingerprint = f"sgrt-{digest[:8]}"
        self.marks = Marks(backend)
        self.format = choose_format(backend, config, template_of(backend))
        self.has_reasoning = has_reasoning(self.format, config, backend)
        self.special_marks = self.marks.special_tokens(self.format) if self.format else {}
        self.renderer = Renderer(backend, self.format)
        self.responses: ResponseStore = main.responses if main else self._new_responses()
        self.sessions = SessionStore(
            config.limits.sessions,
            self.metrics.program_duration.observe,
            max_bytes=config.limits.stored_bytes,
        )
        self._tickets: dict[str, Ticket] = main._tickets if main else {}

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names clients may use, the main one first."""
        return self.config.model_names or (self.description.model,)

    def check_model(self, name: str | None) -> str:
        """The model to name in the answer; a request without a model gets the only one there is.

        Raises:
            ApiError: status 404; the model is not served here.
        """
        if not name or name in self._names_answered:
            return self.model_names[0]
        if name not in self.model_names and name != self.description.model:
            raise ApiError(
                404,
                f"the model {name[:100]!r} does not exist; this server has {', '.join(self.model_names)}",
                param="model",
                code="model_not_found",
            )
        return name

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token; empty for a special token."""
        return self.backend.spelling().bytes_of((token_id,))

    async def encode_prompt(self, text: str, *, special: bool, begins: bool = True) -> tuple[int, ...]:
        """Token ids of a text that opens a prompt, behind the begin tokens if it `begins` with them.

        Raises:
            ContextOverflow: even in the longest tokens there are, the text would fill the context.
        """
        begin = self.backend.begin_tokens() if begins else ()
        token_ids = await self.encode(text, special=special, is_start=True)
        return opened(begin, token_ids)

    async def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        """Token ids of `text`; long texts are encoded beside the event loop.

        Raises:
            ContextOverflow: even in the longest tokens there are, the text would fill the context.
        """
        self.check_size(len(text))
        if len(text) <= _INLINE_CHARS:
            return self.backend.encode(text, special=special, is_start=is_start)
        return await asyncio.to_thread(self.backend.encode, text, special=special, is_start=is_start)

    def check_size(self, num_characters: int, *, param: str = "prompt") -> None:
        """A text that cannot fit is refused before it is encoded, which would take seconds.

        Raises:
            ContextOverflow: even in the longest tokens there are, the text would fill the context.
        """
        limit = self.description.context_tokens * self._longest_token_bytes
        if num_characters > limit:
            raise ContextOverflow(
                f"a text of {num_characters} characters is longer than the model's context length of "
                f"{self.description.context_tokens} tokens can hold; shorten it",
                param=param,
            )

    def check_length(self, token_ids: Sequence[int], *, param: str = "prompt") -> None:
        """A prompt that cannot fit is refused before anything is done with it.

        Raises:
            ContextOverflow: it is longer than the context.
        """
        limit = self.description.context_tokens
        if len(token_ids) > limit:
            raise ContextOverflow(
                f"a prompt of {len(token_ids)} tokens is longer than the model's context length of {limit} tokens; "
                "shorten it",
                param=param,
            )

    async def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens; many are decoded beside the event loop."""
        if len(token_ids) <= _INLINE_TOKENS:
            return self.backend.decode(token_ids)
        return await asyncio.to_thread(self.backend.decode, token_ids)

    @cached_property
    def _longest_token_bytes(self) -> int:
        spelling = self.backend.spelling()
        return max(len(spelling.bytes_of((index,))) for index in range(len(spelling)))

    async def run(
        self, call: Call, *, ticket: Ticket, param: str | None = None, answered: Set[int] = frozenset()
    ) -> AsyncGenerator[Chunk]:
        """The chunks of a call, counted. `param` is the request field its constraint came from.

        The reader puts into `answered` the outputs of which it wants no more; they are ended, where the backend can.

        Raises:
            ApiError: the backend refused or failed.
        """
        clock, started = OutputClock(self.metrics, self.clock, prompt_tokens=len(call.prompt)), self.clock()
        self.metrics.running.add(1)
        if call.constraint is not None:
            self.metrics.constrained.add(kind=type(call.constraint).__name__)
        try:
            async with (
                aclosing(self._chunks(call, answered)) as chunks,
                aclosing(ticket.until_aborted(chunks)) as items,
            ):
                async for chunk in items:
                    clock.note(chunk)
                    if _is_late(chunk) and not clock.has_tokens:
                        raise DeadlineExceeded("the deadline passed before the first token")
                    yield chunk
        except ApiError:
            raise
        except Exception as error:
            refusal = from_exception(error, constraint_param=param)
            if refusal.status in (429, 503):
                self.metrics.rejections.add(reason=refusal.code or "overloaded")
            raise refusal from error
        finally:
            clock.close(StopReason.STOP_STRING if ticket.is_answered else StopReason.CANCELLED)
            self.metrics.running.add(-1)
            self.metrics.end_to_end.observe(self.clock() - started)

    async def _chunks(self, call: Call, answered: Set[int]) -> AsyncGenerator[Chunk]:
        if not isinstance(self.backend, StartsCalls):
            async with _closing(self.backend.generate(call)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        ended: set[int] = set()
        with self.backend.submit(call) as stream:
            async for chunk in stream:
                finish = chunk.finish
                if finish is not None and chunk.index in ended:
                    chunk = replace(chunk, finish=replace(finish, reason=StopReason.STOP_STRING))
                yield chunk
                for index in answered - ended:
                    ended.add(index)
                    stream.cancel_output(index)

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms,
        *,
        top: int = 0,
        param: str = "logprobs",
    ) -> list[Score]:
        """Scores, with the `top` best tokens at each place. `param` is the request field that asked for them.

        Raises:
            ApiError: alternatives are asked for, and the backend gives none.
        """
        if isinstance(self.backend, ScoresAlternatives):
            return await self.backend.score_alternatives(prefix, continuations, top=top, terms=terms)
        if top:
            raise bad_request(
                f"this backend gives log-probabilities but no alternatives; use {param}: 0", param=param
            )
        return await self.backend.score(prefix, continuations, terms)

    @property
    def is_crowded(self) -> bool:
        """Whether more than half of the places are taken."""
        return self.admission.num_sequences * 2 > self.config.limits.inflight_sequences

    def shortened(self, max_tokens: int | None, *, is_constrained: bool) -> int | None:
        """The cap on an answer under load, where the server was told to shorten and is crowded.

        None: the answer may be as long as it wants. What is constrained must be able to end, so it is left alone.
        """
        config = self.config
        if config.overload != "shorten" or is_constrained or not self.is_crowded:
            return None
        cap = config.overload_max_tokens
        return cap if max_tokens is None or max_tokens > cap else None

    def new_id(self, prefix: str) -> str:
        """A fresh id that no client can guess."""
        return f"{prefix}{'_' if prefix == 'resp' else '-'}{secrets.token_hex(16)}"

    @contextmanager
    def ticket(self, prefix: str, owner: str) -> Iterator[Ticket]:
        """A fresh request id, under which `owner` may abort the request while the block runs."""
        ticket = Ticket(request_id=self.new_id(prefix), owner=owner)
        self._tickets[ticket.request_id] = ticket
        try:
            yield ticket
        finally:
            del self._tickets[ticket.request_id]

    def abort(self, request_id: str, *, owner: str) -> bool:
        """End the request with exactly this id; False when this owner has none."""
        ticket = self._tickets.get(request_id)
        if ticket is None or ticket.owner != owner:
            return False
        ticket.abort()
        return True

    def stop(self) -> None:
        """End every request with a refusal: a stream that is merely cut looks complete to several client libraries."""
        for ticket in list(self._tickets.values()):
            ticket.abort(self.admission.shutting_down)

    @property
    def tool_format_name(self) -> str:
        """The name of the tool-call format in use, `none` without one."""
        return self.format.name if self.format else "none"

    def _new_admission(self) -> Admission:
        return Admission(self.config, on_refusal=lambda code: self.metrics.rejections.add(reason=code))

    def _new_responses(self) -> ResponseStore:
        limits = self.config.limits
        return ResponseStore(limits.stored_responses, max_bytes=limits.stored_bytes)

    def _stats(self) -> Mapping[str, float]:
        return self.backend.stats() if isinstance(self.backend, HasStats) else {}

    def _step_sizes(self) -> StepSizes | None:
        return self.backend.step_sizes() if isinstance(self.backend, HasStepSizes) else None


class Ticket:
    """A running request, by the id that the server gave it."""

    def __init__(self, *, request_id: str, owner: str) -> None:
        self.request_id = request_id
        self.owner = owner
        self.is_answered = False  # the reader has all it wanted, and leaves the rest
        self._refusal = ApiError(499, "the request was aborted", kind="aborted_error", code="aborted")
        self._aborted = asyncio.Event()

    def abort(self, refusal: ApiError | None = None) -> None:
        """End the request, saying why: at its next chunk, or at once while it waits for the first."""
        self._refusal = refusal or self._refusal
        self._aborted.set()

    async def until_aborted(self, chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk]:
        """The chunks, until somebody aborts.

        Raises:
            ApiError: the request was aborted (status 499), or the server stops (503).
        """
        try:
            yield await self._first(chunks)
        except StopAsyncIteration:
            return
        async for chunk in chunks:
            if self._aborted.is_set():
                raise self._refusal
            yield chunk

    async def _first(self, chunks: AsyncIterator[Chunk]) -> Chunk:
        first = asyncio.ensure_future(_next(chunks))
        aborted = asyncio.ensure_future(self._aborted.wait())
        try:
            await asyncio.wait({first, aborted}, return_when=asyncio.FIRST_COMPLETED)
            if not first.done():
                raise self._refusal
            return first.result()
        finally:
            aborted.cancel()
            if not first.done():
                first.cancel()
                await asyncio.wait({first})


def _is_late(chunk: Chunk) -> bool:
    return chunk.finish is not None and chunk.finish.reason is StopReason.DEADLINE


async def _next(chunks: AsyncIterator[Chunk]) -> Chunk:
    return await anext(chunks)


@asynccontextmanager
async def _closing(iterator: AsyncIterator[Chunk]) -> AsyncIterator[AsyncIterator[Chunk]]:
    """Close the iterator of a call whatever happens: that is what cancels the call."""
    try:
        yield iterator
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()
