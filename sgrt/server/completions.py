"""/v1/completions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sgrt.server.auth import Caller
from sgrt.server.endpoint import Incoming
from sgrt.server.errors import bad_request
from sgrt.server.logprobs import completion_logprobs
from sgrt.server.output import Ending, ending_of
from sgrt.server.prompt_scores import check_prompt_logprobs, prompt_infos, wire_prompt_logprobs
from sgrt.server.replies import Reply, event, json_reply, stream_reply
from sgrt.server.sampling import check_token_ids, sampling_params
from sgrt.server.service import WHOLE_INTERVAL_S, Service, Ticket
from sgrt.server.streams import merge
from sgrt.server.structured import Wanted, wanted_output
from sgrt.server.usage import UsageSum
from sgrt.server.validation import check_stream_options, ignored_header, parse
from sgrt.server.wire.completions import CompletionRequest
from sgrt_frontend.call import Call, Chunk, SamplingParams, ScoreTerms, TokenInfo


async def completions(service: Service, incoming: Incoming) -> Reply:
    """Continue one prompt or several, whole or in a stream."""
    request = parse(CompletionRequest, incoming.body)
    headers = ignored_header(request)
    check_stream_options(request)
    answer = await _prepare(service, request, incoming.caller)
    if answer.shortened is not None:
        headers["x-sgrt-shortened"] = str(answer.shortened)
    if not request.stream:
        return json_reply(await answer.whole(), headers=headers)
    return await stream_reply(answer.stream(), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prompt:
    """A prompt, and what of it is repeated in the answer; `scored` where its own log-probabilities are wanted."""

    token_ids: tuple[int, ...]
    echo: str = ""
    infos: tuple[TokenInfo, ...] = ()
    scored: tuple[TokenInfo, ...] | None = None


@dataclass(slots=True, kw_only=True)
class _Choice:
    """What has been seen of one choice; `length` counts its characters."""

    texts: list[str] = field(default_factory=list)
    infos: list[TokenInfo] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    length: int = 0
    ending: Ending | None = None


@dataclass(slots=True, kw_only=True)
class _Answer:
    """One request being answered."""

    service: Service
    request: CompletionRequest
    model: str
    prompts: list[_Prompt]
    sampling: SamplingParams
    wanted: Wanted | None
    caller: Caller
    shortened: int | None = None
    usage: UsageSum = field(default_factory=UsageSum)
    created: int = field(default_factory=lambda: int(time.time()))
    request_id: str = ""

    async def whole(self) -> dict[str, object]:
        """The text_completion object."""
        choices = [_Choice() for _ in range(len(self.prompts) * self.sampling.n)]
        async with aclosing(self._pieces()) as pieces:
            async for index, piece in pieces:
                choice = choices[index]
                choice.texts += piece.texts
                choice.infos += piece.infos
                choice.token_ids += piece.token_ids
                choice.ending = piece.ending or choice.ending
        body = self._head()
        body["choices"] = [self._wire_choice(index, choice, offset=0) for index, choice in enumerate(choices)]
        body["usage"] = self.usage.wire
        return body

    async def stream(self) -> AsyncGenerator[bytes]:
        """The events of a stream."""
        options = self.request.stream_options
        wants_usage = options is not None and bool(options.include_usage)
        offsets: dict[int, int] = {}
        async with aclosing(self._pieces()) as pieces:
            async for index, piece in pieces:
                if not (piece.texts or piece.infos or piece.token_ids or piece.ending):
                    continue
                body = self._head()
                offset = offsets.get(index, 0)
                body["choices"] = [self._wire_choice(index, piece, offset=offset)]
                offsets[index] = offset + piece.length
                if wants_usage and options is not None:
                    body["usage"] = self.usage.wire if options.continuous_usage_stats else None
                yield event(body)
        if wants_usage:
            yield event({**self._head(), "choices": [], "usage": self.usage.wire})

    async def _pieces(self) -> AsyncGenerator[tuple[int, _Choice]]:
        """(choice, piece) as they come; the echo of a prompt is the first piece of its choices."""
        with self.service.ticket("cmpl", self.caller.salt) as ticket:
            self.request_id = ticket.request_id
            async with aclosing(self._run(ticket)) as pieces:
                async for item in pieces:
                    yield item

    async def _run(self, ticket: Ticket) -> AsyncGenerator[tuple[int, _Choice]]:
        n = self.sampling.n
        num_tokens = sum(len(prompt.token_ids) for prompt in self.prompts)
        for number, prompt in enumerate(self.prompts):
            self.usage.note_prompt(len(prompt.token_ids), prompt=number)
        has_begun = False
        with self.service.admission.admit(sequences=len(self.prompts) * n, prompt_tokens=num_tokens):
            calls = [
                self.service.run(self._call(prompt), ticket=ticket, param=self._param)
                for prompt in self.prompts
            ]
            async with aclosing(merge(calls)) as chunks:
                async for number, chunk in chunks:
                    if not has_begun:  # not before: what is refused late is still a 400
                        has_begun = True
                        for echo in self._echoes():
                            yield echo
                    yield number * n + chunk.index, self._piece(number, chunk)

    def _echoes(self) -> Iterator[tuple[int, _Choice]]:
        n = self.sampling.n
        for number, prompt in enumerate(self.prompts):
            for index in range(n if prompt.echo else 0):
                echo = _Choice(texts=[prompt.echo], infos=list(prompt.infos), length=len(prompt.echo))
                yield number * n + index, echo

    def _piece(self, number: int, chunk: Chunk) -> _Choice:
        self.usage.note_cached(chunk.cached_tokens, prompt=number)
        if chunk.finish is not None:
            self.usage.add(chunk.finish.usage, index=chunk.index, prompt=number)
        else:
            self.usage.note_tokens(len(chunk.token_ids), index=chunk.index, prompt=number)
        return _Choice(
            texts=[chunk.text] if chunk.text else [],
            infos=list(chunk.logprobs),
            token_ids=list(chunk.token_ids) if self.request.return_token_ids else [],
            length=len(chunk.text),
            ending=self._ending(chunk),
        )

    def _ending(self, chunk: Chunk) -> Ending | None:
        is_free = self.wanted is not None and self.wanted.is_free
        return None if chunk.finish is None else ending_of(chunk.finish, is_cut=is_free)

    @property
    def _param(self) -> str | None:
        return self.wanted.param if self.wanted else None

    def _call(self, prompt: _Prompt) -> Call:
        return Call(
            prompt=prompt.token_ids,
            sampling=self.sampling,
            constraint=self.wanted.constraint if self.wanted else None,
            priority=self.request.priority or 0,
            deadline_s=self.request.deadline_s or self.service.config.default_deadline_s,
            cache_salt=self.caller.salt + (self.request.cache_salt or ""),
            interval_s=0.0 if self.request.stream else WHOLE_INTERVAL_S,
        )

    def _head(self) -> dict[str, object]:
        return {
            "id": self.request_id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.service.fingerprint,
        }

    def _wire_choice(self, index: int, choice: _Choice, *, offset: int) -> dict[str, object]:
        logprobs = None
        if self.request.logprobs is not None:
            logprobs = completion_logprobs(
                choice.infos, self.service.token_bytes, offset=offset, top=self.request.logprobs
            )
        body: dict[str, object] = {
            "index": index,
            "text": "".join(choice.texts),
            "logprobs": logprobs,
            "finish_reason": choice.ending.finish_reason if choice.ending else None,
            "stop_reason": choice.ending.stop_reason if choice.ending else None,
        }
        if self.request.return_token_ids:
            body["token_ids"] = choice.token_ids
            body["prompt_token_ids"] = list(self.prompts[index // self.sampling.n].token_ids)
        scored = self.prompts[index // self.sampling.n].scored
        if scored is not None:
            body["prompt_logprobs"] = wire_prompt_logprobs(scored, self.service.token_bytes)
        return body


async def _prepare(service: Service, request: CompletionRequest, caller: Caller) -> _Answer:
    limits = service.config.limits
    model = service.check_model(request.model)
    if request.logprobs is not None and request.logprobs > limits.top_logprobs:
        raise bad_request(f"logprobs: at most {limits.top_logprobs} are given", param="logprobs")
    check_prompt_logprobs(request.prompt_logprobs, is_stream=bool(request.stream), limit=limits.top_logprobs)
    wanted = wanted_output(request, limits)
    max_tokens = service.config.completion_max_tokens if request.max_tokens is None else request.max_tokens
    shortened = service.shortened(max_tokens, is_constrained=wanted is not None)
    sampling = sampling_params(
        request,
        limits=limits,
        vocabulary_tokens=service.description.vocabulary_tokens,
        max_tokens=shortened or max_tokens,
        logprobs=request.logprobs,
    )
    given = await _given(service, request)
    if len(given) * sampling.n > limits.sequences:
        raise bad_request(
            f"prompts x n is {len(given) * sampling.n}; at most {limits.sequences} outputs a request",
            param="n",
        )
    terms = ScoreTerms(priority=request.priority or 0, cache_salt=caller.salt + (request.cache_salt or ""))
    prompts = [await _prompt(service, request, each, terms) for each in given]
    return _Answer(
        service=service,
        request=request,
        model=model,
        prompts=prompts,
        sampling=sampling,
        wanted=wanted,
        caller=caller,
        shortened=shortened,
    )


class _Given(NamedTuple):
    """A prompt as it came: tokens, and the text where it was one."""

    token_ids: tuple[int, ...]
    text: str | None


async def _given(service: Service, request: CompletionRequest) -> list[_Given]:
    prompt, limits = request.prompt, service.config.limits
    if isinstance(prompt, str):
        return [_Given(await _encoded(service, request, prompt), prompt)]
    if not prompt:
        raise bad_request("prompt: must not be an empty list", param="prompt")
    items: list[str | list[int]] = []
    flat: list[int] = []
    for item in prompt:
        if isinstance(item, int):
            flat.append(item)
        else:
            items.append(item)
    items = items or [flat]
    if len(items) > limits.prompts:
        raise bad_request(f"prompt: at most {limits.prompts} prompts a request", param="prompt")
    size = service.description.vocabulary_tokens
    return [
        _Given(await _encoded(service, request, item), item)
        if isinstance(item, str)
        else _Given(check_token_ids(item, vocabulary_tokens=size, param="prompt"), None)
        for item in items
    ]


async def _encoded(service: Service, request: CompletionRequest, text: str) -> tuple[int, ...]:
    return await service.encode_prompt(
        text, special=request.special is not False, begins=request.add_special_tokens is not False
    )


async def _prompt(service: Service, request: CompletionRequest, given: _Given, terms: ScoreTerms) -> _Prompt:
    token_ids, text = given
    service.check_length(token_ids)
    echo = (await service.decode(token_ids) if text is None else text) if request.echo else ""
    echoed = request.logprobs if request.echo else None
    wanted = request.prompt_logprobs
    if echoed is None and wanted is None:
        return _Prompt(token_ids=token_ids, echo=echo)
    with service.admission.admit(sequences=1, prompt_tokens=len(token_ids)):
        infos = await prompt_infos(
            service,
            token_ids,
            terms,
            top=max(echoed or 0, wanted or 0),
            param="logprobs" if wanted is None else "prompt_logprobs",
        )
    return _Prompt(
        token_ids=token_ids,
        echo=echo,
        infos=() if echoed is None else tuple(replace(info, top=info.top[:echoed]) for info in infos),
        scored=None if wanted is None else tuple(replace(info, top=info.top[:wanted]) for info in infos),
    )
