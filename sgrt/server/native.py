"""The native routes: everything an HttpBackend needs to be token for token what an engine in process is."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing

from sgrt.backend.call_codec import (
    chunk_to_json,
    constraint_from_json,
    plan_from_json,
    sampling_from_json,
    score_to_json,
)
from sgrt.server.config import Limits
from sgrt.server.endpoint import Incoming
from sgrt.server.errors import bad_request
from sgrt.server.replies import Reply, event, json_reply, stream_reply
from sgrt.server.sampling import check_token_ids
from sgrt.server.service import WHOLE_INTERVAL_S, Service
from sgrt.server.validation import parse
from sgrt.server.wire.native import (
    DecodeRequest,
    EncodeRequest,
    GenerateRequest,
    RenderRequest,
    ScoreRequest,
)
from sgrt_frontend.call import Call, Message, Role, SamplingParams, ScoreTerms


async def generate(service: Service, incoming: Incoming) -> Reply:
    """Run a call; its chunks whole or in a stream."""
    request = parse(GenerateRequest, incoming.body)
    call = await _call(service, request, incoming)
    if request.stream:
        return await stream_reply(_events(service, call, incoming.caller.salt))
    chunks: list[dict[str, object]] = []
    async with aclosing(_chunks(service, call, incoming.caller.salt)) as items:
        async for item in items:
            chunks.append(item)
    return json_reply({"chunks": chunks})


async def score(service: Service, incoming: Incoming) -> Reply:
    """Score continuations."""
    request = parse(ScoreRequest, incoming.body)
    limits = service.config.limits
    size = service.description.vocabulary_tokens
    if len(request.continuations) > limits.continuations:
        raise bad_request(f"continuations: at most {limits.continuations} are taken", param="continuations")
    prefix = check_token_ids(request.prefix, vocabulary_tokens=size, param="prefix")
    continuations = [
        check_token_ids(tokens, vocabulary_tokens=size, param=f"continuations[{index}]")
        for index, tokens in enumerate(request.continuations)
    ]
    for tokens in (prefix, *continuations):
        service.check_length(tokens, param="continuations")
    if (request.top or 0) > limits.top_logprobs:
        raise bad_request(f"top: at most {limits.top_logprobs} are given", param="top")
    num_tokens = len(prefix) + sum(map(len, continuations))
    # One place, however many continuations: they are scored together and give no output. Their tokens count.
    with service.admission.admit(sequences=1, prompt_tokens=num_tokens):
        scores = await service.score(
            prefix,
            continuations,
            ScoreTerms(
                priority=request.priority or 0,
                cache_salt=incoming.caller.salt + (request.cache_salt or ""),
                plan=plan_from_json(request.plan),
            ),
            top=request.top or 0,
            param="top",
        )
    return json_reply({"scores": [score_to_json(item) for item in scores]})


async def describe(service: Service, incoming: Incoming) -> Reply:
    """What runs here, and what every prompt starts with."""
    description = service.description
    return json_reply(
        {
            "model": description.model,
            "context_tokens": description.context_tokens,
            "vocabulary_tokens": description.vocabulary_tokens,
            "end_token_ids": list(description.end_token_ids),
            "has_chat_template": description.has_chat_template,
            "begin_tokens": list(service.backend.begin_tokens()),
        }
    )


async def vocabulary(service: Service, incoming: Incoming) -> Reply:
    """The bytes of every token, in base64; special tokens have none."""
    return json_reply({"tokens": await asyncio.to_thread(_vocabulary, service)})


def _vocabulary(service: Service) -> list[str]:
    spelling = service.backend.spelling()
    return [base64.b64encode(spelling.bytes_of((index,))).decode() for index in range(len(spelling))]


async def encode(service: Service, incoming: Incoming) -> Reply:
    """Text to tokens, without a begin token."""
    request = parse(EncodeRequest, incoming.body)
    token_ids = await service.encode(request.text, special=request.special, is_start=request.is_start)
    return json_reply({"token_ids": list(token_ids)})


async def decode(service: Service, incoming: Incoming) -> Reply:
    """Tokens to text."""
    request = parse(DecodeRequest, incoming.body)
    size = service.description.vocabulary_tokens
    token_ids = check_token_ids(request.token_ids, vocabulary_tokens=size, param="token_ids")
    return json_reply({"text": await service.decode(token_ids)})


async def render(service: Service, incoming: Incoming) -> Reply:
    """A chat to tokens."""
    request = parse(RenderRequest, incoming.body)
    messages = [Message(role=Role(message.role), content=message.content) for message in request.messages]
    service.check_size(sum(len(message.content) for message in messages), param="messages")
    token_ids = await asyncio.to_thread(
        service.backend.render, messages, open_assistant=request.open_assistant
    )
    return json_reply({"token_ids": list(token_ids)})


async def _call(service: Service, request: GenerateRequest, incoming: Incoming) -> Call:
    if (request.token_ids is None) == (request.text is None):
        raise bad_request("send either token_ids or text", param="token_ids")
    size = service.description.vocabulary_tokens
    if request.token_ids is not None:
        prompt = check_token_ids(request.token_ids, vocabulary_tokens=size, param="token_ids")
    else:
        prompt = await service.encode_prompt(request.text or "", special=False)
    service.check_length(prompt)
    sampling = sampling_from_json(request.sampling or {})
    _check_sampling(sampling, service.config.limits, size)
    return Call(
        prompt=prompt,
        sampling=sampling,
        constraint=constraint_from_json(request.constraint),
        priority=request.priority or 0,
        deadline_s=request.deadline_s or service.config.default_deadline_s,
        cache_salt=incoming.caller.salt + (request.cache_salt or ""),
        label=request.label or "",
        plan=plan_from_json(request.plan),
        interval_s=(request.interval_s or 0.0) if request.stream else WHOLE_INTERVAL_S,
    )


def _check_sampling(sampling: SamplingParams, limits: Limits, vocabulary_tokens: int) -> None:
    counts = (
        ("n", sampling.n, limits.sequences),
        ("stop", len(sampling.stop), limits.stop_strings),
        ("stop_token_ids", len(sampling.stop_token_ids), limits.stop_token_ids),
        ("logit_bias", len(sampling.logit_bias), limits.logit_bias),
        ("logprobs", sampling.logprobs or 0, limits.top_logprobs),
        ("allowed_token_ids", len(sampling.allowed_token_ids), vocabulary_tokens),
    )
    for name, count, limit in counts:
        if count > limit:
            raise bad_request(f"sampling.{name}: {count} is over {limit}", param=f"sampling.{name}")
    for name, token_ids in (
        ("logit_bias", [token_id for token_id, _ in sampling.logit_bias]),
        ("stop_token_ids", list(sampling.stop_token_ids)),
        ("allowed_token_ids", list(sampling.allowed_token_ids)),
    ):
        check_token_ids(token_ids, vocabulary_tokens=vocabulary_tokens, param=f"sampling.{name}")


async def _events(service: Service, call: Call, owner: str) -> AsyncGenerator[bytes]:
    async with aclosing(_chunks(service, call, owner)) as items:
        async for item in items:
            yield event(item)


async def _chunks(service: Service, call: Call, owner: str) -> AsyncGenerator[dict[str, object]]:
    with (
        service.ticket("gen", owner) as ticket,
        service.admission.admit(sequences=call.sampling.n, prompt_tokens=len(call.prompt)),
    ):
        async with aclosing(service.run(call, ticket=ticket, param="constraint")) as chunks:
            async for chunk in chunks:
                yield chunk_to_json(chunk)
