"""What a chat request comes to: prompt tokens, a Call, and a reader that splits the output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

from sgrt.server.auth import Caller
from sgrt.server.errors import bad_request, from_exception
from sgrt.server.marks import MarkedText
from sgrt.server.output import Delta, PlainReader
from sgrt.server.parsed_output import ParsedReader, new_call_id
from sgrt.server.prompts import num_characters, plain_turns_of
from sgrt.server.sampling import sampling_params, stop_strings
from sgrt.server.service import WHOLE_INTERVAL_S, Service, Ticket
from sgrt.server.sessions import Session, Turn, continued, visible_tokens
from sgrt.server.structured import Wanted, wanted_output
from sgrt.server.tool_setup import ToolMode, ToolSetup, is_thinking, read_tools
from sgrt.server.usage import UsageSum
from sgrt.server.wire.chat import ChatRequest
from sgrt_frontend.call import Call, Chunk
from sgrt_frontend.stop_search import StopSearch
from sgrt_grammars.errors import GrammarError
from sgrt_grammars.tools.format import Format
from sgrt_grammars.tools.grammar import Demand, answer_after_thoughts, output_grammar
from sgrt_grammars.tools.parser import OutputParser


class Reader(Protocol):
    """Splits the chunks of one output into deltas."""

    num_reasoning_tokens: int

    def read(self, chunk: Chunk) -> list[Delta]:
        """The deltas of one chunk."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """The session a chat belongs to, and the turns that it goes on from."""

    owner: str
    name: str
    turns: tuple[Turn, ...]
    started_s: float

    def keep(self, service: Service, call: Call, token_ids: Sequence[int], text: str) -> None:
        """Remember the answer as the tokens it was generated as; what follows them is the template's to write."""
        session = Session(
            turns=self.turns,
            prompt=call.prompt,
            output=visible_tokens(
                token_ids, text, bytes_of=service.token_bytes, encode=service.backend.encode
            ),
            text=text,
            started_s=self.started_s,
            ended_s=service.clock(),
        )
        service.sessions.put(self.owner, self.name, session)


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPlan:
    """A chat request, ready to run."""

    model: str
    call: Call
    constraint_param: str | None
    new_reader: Callable[[], Reader]
    session: SessionPlan | None = None
    shortened: int | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What the answer says about itself."""
        return {} if self.shortened is None else {"x-sgrt-shortened": str(self.shortened)}

    @property
    def num_choices(self) -> int:
        """How many outputs it asks for."""
        return self.call.sampling.n

    async def deltas(
        self,
        service: Service,
        usage: UsageSum,
        ticket: Ticket,
        *,
        first: Callable[[], Awaitable[None]] = _nothing,
    ) -> AsyncGenerator[tuple[int, Delta]]:
        """(choice, delta) in the order they come; every choice ends exactly once. Counts into `usage`.

        `first` is done before, in the same places.
        """
        readers = [self.new_reader() for _ in range(self.num_choices)]
        answered: set[int] = set()
        token_ids: list[int] = []
        texts: list[str] = []
        has_thoughts = False
        usage.note_prompt(len(self.call.prompt))
        with service.admission.admit(sequences=self.num_choices, prompt_tokens=len(self.call.prompt)):
            await first()
            running = service.run(self.call, ticket=ticket, param=self.constraint_param, answered=answered)
            async with aclosing(running) as chunks:
                async for chunk in chunks:
                    if chunk.index in answered:
                        continue
                    usage.note_tokens(len(chunk.token_ids), index=chunk.index)
                    usage.note_cached(chunk.cached_tokens)
                    if chunk.finish is not None:
                        usage.add(chunk.finish.usage, index=chunk.index)
                    token_ids += chunk.token_ids
                    for delta in readers[chunk.index].read(chunk):
                        texts.append(delta.content)
                        has_thoughts = has_thoughts or bool(delta.reasoning)
                        if delta.ending is not None:
                            answered.add(chunk.index)
                            usage.reasoning_tokens += readers[chunk.index].num_reasoning_tokens
                        yield chunk.index, delta
                    if len(answered) == self.num_choices:
                        ticket.is_answered = True
                        break
        if self.session is not None and not has_thoughts:  # templates leave out the thoughts of earlier turns
            self.session.keep(service, self.call, token_ids, "".join(texts))


async def plan_chat(service: Service, request: ChatRequest, caller: Caller) -> ChatPlan:
    """Check a request and prepare it.

    Raises:
        ApiError: the request is refused.
        InvalidRequest: a value is out of range or the model cannot render these messages.
    """
    model = service.check_model(request.model)
    setup, wanted = _shape(service, request)
    session = _session(service, request, setup, caller)
    prompt = await _prompt(service, request, setup, session)
    form = service.format
    thinks = service.has_reasoning and is_thinking(service.marks, form, prompt)
    constrained = _constrained(service, setup, wanted, thinks=thinks)
    reads_marks = form is not None and (setup.mode is not ToolMode.NONE or service.has_reasoning)
    max_tokens = request.max_completion_tokens or request.max_tokens
    shortened = service.shortened(max_tokens, is_constrained=constrained is not None)
    sampling = sampling_params(
        request,
        limits=service.config.limits,
        vocabulary_tokens=service.description.vocabulary_tokens,
        max_tokens=shortened or max_tokens,
        logprobs=_num_logprobs(request, service.config.limits.top_logprobs),
        has_own_stops=reads_marks,
    )
    plan = ChatPlan(
        model=model,
        call=Call(
            prompt=prompt,
            sampling=sampling,
            constraint=constrained.constraint if constrained else None,
            priority=request.priority or 0,
            deadline_s=request.deadline_s or service.config.default_deadline_s,
            cache_salt=caller.salt + (request.cache_salt or ""),
            interval_s=0.0 if request.stream or (reads_marks and request.stop) else WHOLE_INTERVAL_S,
        ),
        constraint_param=constrained.param if constrained else None,
        new_reader=lambda: PlainReader(is_free=wanted is not None and wanted.is_free),
        session=session,
        shortened=shortened,
    )
    if not reads_marks or form is None:
        return plan
    return replace(plan, new_reader=_reader_maker(service, form, request, setup, wanted, thinks))


def _shape(service: Service, request: ChatRequest) -> tuple[ToolSetup, Wanted | None]:
    """The tools of a request and the constraint on its answer, which do not contradict each other."""
    limits = service.config.limits
    setup = _check_tools(service, read_tools(request, limits))
    wanted = wanted_output(request, limits)
    if wanted is not None and setup.is_forced:
        raise bad_request(
            "a demanded tool call leaves no answer to constrain; drop tool_choice or the constraint",
            param="tool_choice",
        )
    if wanted is not None and not wanted.is_free and stop_strings(request, limits):
        raise bad_request(
            f"stop: cannot be combined with {wanted.param}, which it would cut short; say in the constraint where "
            "the text ends",
            param="stop",
        )
    return setup, wanted


async def _prompt(
    service: Service, request: ChatRequest, setup: ToolSetup, session: SessionPlan | None
) -> tuple[int, ...]:
    """The prompt of the messages, over the tokens of the session where it goes on."""
    service.check_size(num_characters(request.messages), param="messages")
    prompt = await service.renderer.render(request, setup, service.config.limits)
    service.check_length(prompt, param="messages")
    return prompt if session is None else await _continued(service, session, prompt)


def _session(service: Service, request: ChatRequest, setup: ToolSetup, caller: Caller) -> SessionPlan | None:
    """The session a request names. Only plain conversations with one answer keep their tokens."""
    if request.session_id is None or setup.mode is not ToolMode.NONE or (request.n or 1) > 1:
        return None
    turns = plain_turns_of(request)
    if turns is None or request.continue_final_message or request.add_generation_prompt is False:
        return None
    before = service.sessions.get(caller.salt, request.session_id)
    goes_on = before is not None and turns[: len(before.turns)] == before.turns
    started_s = before.started_s if before is not None and goes_on else service.clock()
    return SessionPlan(owner=caller.salt, name=request.session_id, turns=turns, started_s=started_s)


async def _continued(service: Service, plan: SessionPlan, prompt: tuple[int, ...]) -> tuple[int, ...]:
    """`prompt` over the session's own tokens where it goes on from them."""
    before = service.sessions.get(plan.owner, plan.name)
    if before is None:
        return prompt
    render = service.renderer.plain_turns
    found = await asyncio.to_thread(continued, before, plan.turns, prompt, render)
    if found is None:
        return prompt
    service.metrics.reencoded_tokens.add(found.num_saved)
    return found.prompt


def _check_tools(service: Service, setup: ToolSetup) -> ToolSetup:
    if setup.mode is not ToolMode.NONE and service.format is None:
        raise bad_request("this server has no tool format (--tool-format)", param="tools")
    return setup


def _constrained(service: Service, setup: ToolSetup, wanted: Wanted | None, *, thinks: bool) -> Wanted | None:
    """The constraint on the whole output: calls where there are tools, the answer, thoughts before both."""
    form = service.format
    if setup.mode is ToolMode.NONE or form is None:
        if wanted is None or form is None or not thinks:
            return wanted
        return wanted._replace(constraint=answer_after_thoughts(form, wanted.constraint, service.marks.spell))
    demand = Demand(
        required=setup.is_forced,
        parallel=setup.parallel,
        answer=wanted.constraint if wanted else None,
        thinking=thinks,
    )
    try:
        return Wanted(output_grammar(form, setup.tools, demand, service.marks.spell), "tools")
    except GrammarError as error:
        raise from_exception(error, constraint_param="tools") from error


def _reader_maker(
    service: Service,
    form: Format,
    request: ChatRequest,
    setup: ToolSetup,
    wanted: Wanted | None,
    thinks: bool,
) -> Callable[[], Reader]:
    # A demanded call is no free text: what a stop string would cut there has a shape.
    stops = () if setup.is_forced else stop_strings(request, service.config.limits)
    special = (
        service.special_marks if request.skip_special_tokens is not False else {}
    )  # else the text has them all
    id_length = 9 if form.name == "mistral" else 0

    def make() -> Reader:
        return ParsedReader(
            OutputParser(
                form,
                setup.tools,
                is_reasoning_open=thinks,
                reads_reasoning=service.has_reasoning,
                streams_arguments=True,
            ),
            StopSearch(stops, includes_stop=bool(request.include_stop_str_in_output)),
            min_tokens=request.min_tokens or 0,
            marked=MarkedText(service.backend, special) if special else None,
            is_named=setup.mode is ToolMode.NAMED,
            closes_calls_only=(wanted is None or wanted.is_free) and not setup.is_forced,
            new_id=lambda: new_call_id(id_length),
        )

    return make


def _num_logprobs(request: ChatRequest, maximum: int) -> int | None:
    top = request.top_logprobs or 0
    if top and not request.logprobs:
        raise bad_request("top_logprobs needs logprobs: true", param="top_logprobs")
    if top > maximum:
        raise bad_request(f"top_logprobs: at most {maximum} are given", param="top_logprobs")
    return top if request.logprobs else None
