"""What a chat request comes to: prompt tokens, a Call, and a reader that splits the output."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from sgrt.server import prompts
from sgrt.server.auth import Caller
from sgrt.server.errors import bad_request
from sgrt.server.output import Delta, PlainReader
from sgrt.server.sampling import sampling_params
from sgrt.server.service import Service, Ticket
from sgrt.server.structured import wanted_output
from sgrt.server.usage import UsageSum
from sgrt.server.wire.chat import ChatRequest
from sgrt_frontend.call import Call, Chunk, Message


class Reader(Protocol):
    """Splits the chunks of one output into deltas."""

    def read(self, chunk: Chunk) -> list[Delta]:
        """The deltas of one chunk."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPlan:
    """A chat request, ready to run."""

    model: str
    call: Call
    constraint_param: str | None
    new_reader: Callable[[], Reader]

    @property
    def num_choices(self) -> int:
        """How many outputs it asks for."""
        return self.call.sampling.n

    async def deltas(
        self, service: Service, usage: UsageSum, ticket: Ticket
    ) -> AsyncGenerator[tuple[int, Delta]]:
        """(choice, delta) in the order they come; every choice ends exactly once. Counts into `usage`."""
        readers = [self.new_reader() for _ in range(self.num_choices)]
        unfinished = set(range(self.num_choices))
        usage.note_prompt(len(self.call.prompt))
        with service.admission.admit(sequences=self.num_choices, prompt_tokens=len(self.call.prompt)):
            async with aclosing(service.run(self.call, ticket=ticket, param=self.constraint_param)) as chunks:
                async for chunk in chunks:
                    if chunk.index not in unfinished:
                        continue
                    usage.note_tokens(len(chunk.token_ids), index=chunk.index)
                    if chunk.finish is not None:
                        usage.add(chunk.finish.usage, index=chunk.index)
                    for delta in readers[chunk.index].read(chunk):
                        yield chunk.index, delta
                        if delta.ending is not None:
                            unfinished.discard(chunk.index)
                    if not unfinished:
                        return


async def plan_chat(service: Service, request: ChatRequest, caller: Caller) -> ChatPlan:
    """Check a request and prepare it.

    Raises:
        ApiError: the request is refused.
        InvalidRequest: a value is out of range or the model cannot render these messages.
    """
    limits = service.config.limits
    model = service.check_model(request.model)
    prompts.check_count(request, limits)
    if request.tool_choice not in (None, "none") and not request.tools:
        raise bad_request("tool_choice needs tools", param="tool_choice")
    wanted = wanted_output(request, limits)
    messages = [
        Message(role=prompts.role_of(message), content=prompts.plain_text(message, index=index))
        for index, message in enumerate(request.messages)
    ]
    prompt = await prompts.render(service.backend, messages, request)
    sampling = sampling_params(
        request,
        limits=limits,
        vocabulary_tokens=service.description.vocabulary_tokens,
        max_tokens=request.max_completion_tokens or request.max_tokens,
        logprobs=_num_logprobs(request, limits.top_logprobs),
    )
    call = Call(
        prompt=prompt,
        sampling=sampling,
        constraint=wanted.constraint if wanted else None,
        priority=request.priority or 0,
        deadline_s=request.deadline_s or service.config.default_deadline_s,
        cache_salt=caller.salt + (request.cache_salt or ""),
    )
    return ChatPlan(
        model=model,
        call=call,
        constraint_param=wanted.param if wanted else None,
        new_reader=PlainReader,
    )


def _num_logprobs(request: ChatRequest, maximum: int) -> int | None:
    top = request.top_logprobs or 0
    if top and not request.logprobs:
        raise bad_request("top_logprobs needs logprobs: true", param="top_logprobs")
    if top > maximum:
        raise bad_request(f"top_logprobs: at most {maximum} are given", param="top_logprobs")
    return top if request.logprobs else None
