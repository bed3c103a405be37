"""A backend that says what a test tells it to, and a client of the server around it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
from starlette.applications import Starlette

from sgrt.server.app import create_app
from sgrt.server.config import ServerConfig
from sgrt.server.serving import DrainingServer
from sgrt_frontend.call import (
    ORDINARY,
    Call,
    Chunk,
    Description,
    Finish,
    Message,
    Score,
    ScoreTerms,
    StopReason,
    TokenInfo,
    TokenLogprob,
    Usage,
)
from sgrt_frontend.errors import ContextOverflow
from sgrt_frontend.spelling import Spelling
from sgrt_frontend.stop_search import StopSearch

END = 256
SPELLING = Spelling([bytes([number]) for number in range(256)] + [b""] * 256)


@dataclass(slots=True)
class PieceBackend:
    """Bytes are tokens; id 256 ends the text. Every call is answered by `pieces`, one chunk each.

    Stops and limits apply as in an engine; constraints are recorded and not applied.
    """

    pieces: Sequence[str] = ("Hello", " world")
    step_s: float = 0.0
    failure: Exception | None = None
    fails_after: int = 0
    cached_tokens: int = 0
    name: str = "stub"
    reason: StopReason = StopReason.END_OF_TEXT
    calls: list[Call] = field(default_factory=list)
    score_terms: list[ScoreTerms] = field(default_factory=list)
    num_running: int = 0
    num_cancelled: int = 0
    num_pieces: int = 0
    is_held: bool = False  # nothing goes on while it is

    def describe(self) -> Description:
        return Description(
            model=self.name,
            context_tokens=4096,
            vocabulary_tokens=512,
            end_token_ids=(END,),
            has_chat_template=True,
        )

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        return tuple(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token for token in token_ids if token < 256).decode("utf-8", "replace")

    def spelling(self) -> Spelling:
        return SPELLING

    def begin_tokens(self) -> tuple[int, ...]:
        return ()

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        text = "".join(f"<{message.role.value}>{message.content}\n" for message in messages)
        return tuple((text + ("<assistant>" if open_assistant else "")).encode())

    async def generate(self, call: Call) -> AsyncIterator[Chunk]:
        self.calls.append(call)
        if len(call.prompt) > 4096:
            raise ContextOverflow(f"the prompt has {len(call.prompt)} tokens; the context holds 4096")
        if self.failure is not None and not self.fails_after:
            raise self.failure
        self.num_running += 1
        try:
            for index in range(call.sampling.n):
                async for chunk in self._output(call, index):
                    yield chunk
        except GeneratorExit:
            self.num_cancelled += 1
            raise
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        finally:
            self.num_running -= 1

    async def _output(self, call: Call, index: int) -> AsyncIterator[Chunk]:
        search = StopSearch(call.sampling.stop, includes_stop=call.sampling.include_stop)
        limit = call.sampling.max_tokens if call.sampling.max_tokens is not None else 10_000
        for number, piece in enumerate(self.pieces):
            if number >= limit:
                yield self._end(call, index, number, StopReason.LENGTH, search.flush())
                return
            await asyncio.sleep(self.step_s)
            while self.is_held:
                await asyncio.sleep(0.005)
            if self.failure is not None and number >= self.fails_after:
                raise self.failure
            self.num_pieces += 1
            text = search.feed(piece, may_stop=number + 1 >= call.sampling.min_tokens)
            if search.stop is not None:
                yield self._end(call, index, number + 1, StopReason.STOP_STRING, text, search.stop)
                return
            infos = () if call.sampling.logprobs is None else (_info(piece, call.sampling.logprobs),)
            yield Chunk(index=index, token_ids=(ord(piece[0]) % 256,), text=text, logprobs=infos)
        yield self._end(call, index, len(self.pieces), self.reason, search.flush())

    def _end(
        self, call: Call, index: int, count: int, reason: StopReason, text: str, stop: str | None = None
    ) -> Chunk:
        usage = Usage(prompt_tokens=len(call.prompt), cached_tokens=self.cached_tokens, output_tokens=count)
        return Chunk(index=index, text=text, finish=Finish(reason=reason, usage=usage, stop=stop))

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        self.score_terms.append(terms)
        usage = Usage(prompt_tokens=len(prefix), cached_tokens=0, output_tokens=0)
        return [Score(logprobs=tuple(-float(t) for t in tokens), usage=usage) for tokens in continuations]


def _info(piece: str, top: int) -> TokenInfo:
    chosen = TokenLogprob(token_id=ord(piece[0]) % 256, logprob=-0.5)
    others = tuple(TokenLogprob(token_id=65 + number, logprob=-1.0 - number) for number in range(top))
    return TokenInfo(chosen=chosen, top=others)


class Client:
    """Sends requests to the application in this process."""

    def __init__(self, app: Starlette) -> None:
        self.app = app

    def request(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, content: bytes | None = None
    ) -> httpx.Response:
        """One request."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, path, headers=headers, content=content)

        return asyncio.run(send())

    def get(self, path: str, **headers: str) -> httpx.Response:
        """A GET."""
        return self.request("GET", path, headers=headers)

    def post(self, path: str, body: object, headers: dict[str, str] | None = None) -> httpx.Response:
        """A POST of JSON, or of bytes as they are."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"content-type": "application/json", **(headers or {})}
        return self.request("POST", path, headers=head, content=content)

    def chat(self, **fields: object) -> httpx.Response:
        """A chat completion with one user message."""
        body = {"model": "stub", "messages": [{"role": "user", "content": "go"}], **fields}
        return self.post("/v1/chat/completions", body)

    def complete(self, **fields: object) -> httpx.Response:
        """A text completion."""
        return self.post("/v1/completions", {"model": "stub", "prompt": "go", **fields})


def events(response: httpx.Response) -> list[dict[str, object]]:
    """The JSON events of a stream, which must end in [DONE]."""
    blocks = [block for block in response.text.split("\n\n") if block and not block.startswith(":")]
    assert blocks[-1] == "data: [DONE]", "the stream must be ended properly"
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]


@contextmanager
def serving(backend: PieceBackend, **settings: object) -> Iterator[Client]:
    """A client of a server with these settings."""
    yield Client(create_app(backend, ServerConfig(**settings)))  # type: ignore[arg-type]  # from test tables


@contextmanager
def listening(app: Starlette, **settings: object) -> Iterator[str]:
    """The base URL of the application on a real socket of this machine."""
    ready = threading.Event()
    config = ServerConfig(port=0, drain_timeout_s=5.0, **settings)  # type: ignore[arg-type]  # from test tables
    server = DrainingServer(app, config, on_ready=lambda url: ready.set())
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(10), "the server did not start"
    try:
        yield server.url
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive(), "the server did not stop"
