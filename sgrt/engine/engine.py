"""The in-process backend: a model, its cache and the thread that drives them, behind one context manager."""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import time
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Self, Unpack

from sgrt.config import EngineConfig, EngineSettings, check_setting_names
from sgrt.engine.completion import Completion
from sgrt.engine.core import EngineCore
from sgrt.engine.grammar_queue import GrammarQueue
from sgrt.engine.intake import Intake
from sgrt.engine.job import GenerateJob, ScoreJob
from sgrt.engine.loop import EngineLoop
from sgrt.engine.mailbox import Mailbox
from sgrt.engine.output_text import OutputText
from sgrt.engine.parts import EngineParts, load_parts, sampled_tokens
from sgrt.engine.score_tree import PathScores, ScoreTree
from sgrt.engine.stats import STEP_TOKENS, EngineStats
from sgrt.engine.stream import Stream
from sgrt.tokenizer.disguise import Json
from sgrt.tokenizer.stream_decoder import StreamDecoder
from sgrt_frontend.call import (
    ORDINARY,
    Call,
    Chunk,
    Description,
    Message,
    Score,
    ScoreTerms,
    Share,
)
from sgrt_frontend.spelling import Spelling
from sgrt_grammars.compiler import GrammarCompiler


class Engine:
    """Runs a model in this process; implements `Backend`.

        with Engine("smollm2") as engine:
            tokens = engine.encode("Once upon a time", is_start=True)
            call = Call(prompt=engine.begin_tokens() + tokens)
            print(engine.complete(call)[0].text)

    Methods may be called from any thread and any event loop of the process that made it; in a forked child they raise
    `BackendError`. Leaving the context cancels what runs.
    """

    def __init__(self, model: str = "smollm2", **settings: Unpack[EngineSettings]) -> None:
        """Load `model` (a pulled name, a `.gguf` file, a Hugging Face folder); `settings` as in `EngineConfig`.

        Raises:
            ModelError: the model cannot be found, read or run.
            InvalidRequest: a setting is unknown or out of range.
        """
        check_setting_names(settings)
        config = EngineConfig(model=model, **settings)
        self._clock = time.monotonic
        self._start(load_parts(config), config)

    @classmethod
    def from_config(cls, config: EngineConfig) -> Self:
        """An engine with these settings; raises what the constructor raises."""
        return cls.from_parts(load_parts(config), config)

    @classmethod
    def from_parts(
        cls,
        parts: EngineParts,
        config: EngineConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> Self:
        """An engine around a runner made elsewhere: a `ScriptedRunner`, say. `clock` gives arrivals and deadlines."""
        engine = cls.__new__(cls)
        engine._clock = clock
        engine._start(parts, config or EngineConfig())
        return engine

    def _assemble(self, parts: EngineParts, config: EngineConfig) -> None:
        self.config = config
        self._parts = parts
        tokenizer = parts.tokenizer
        self._vocabulary = tokenizer.vocabulary()
        num_sampled = sampled_tokens(tokenizer, parts.runner.vocabulary_tokens)
        self._intake = Intake(
            limits=parts.limits,
            vocabulary_tokens=num_sampled,
            end_token_ids=frozenset(tokenizer.end_token_ids),
            shares_prefixes=config.prefix_caching,
        )
        self._ids = itertools.count()
        self._seeds = random.Random(config.seed)
        core = EngineCore(
            parts.runner,
            parts.limits,
            end_token_ids=tokenizer.end_token_ids,
            sampled_tokens=num_sampled,
            checks_integrity=config.checks_integrity,
        )
        self._core_stats = core.stats
        self._loop = EngineLoop(core, clock=self._clock)
        self._grammars = GrammarQueue(GrammarCompiler(self._vocabulary), self._loop)
        self._loop.start()
        # Also runs when the engine is forgotten, and at exit: the thread must not outlive the interpreter.
        self._finalizer = weakref.finalize(self, _shut_down, self._loop, self._grammars, parts)

    def _start(self, parts: EngineParts, config: EngineConfig) -> None:
        try:
            self._assemble(parts, config)
        except BaseException:
            parts.close()
            raise
        if parts.summary and config.verbose:
            print(f"sgrt: {parts.summary}", file=sys.stderr)  # noqa: T201  # what runs, and with which sizes

    # -- what runs here ----------------------------------------------------------------------------

    def describe(self) -> Description:
        """Name, context and end tokens of the model."""
        return Description(
            model=self._parts.name,
            context_tokens=self._parts.limits.context_tokens,
            vocabulary_tokens=self._parts.runner.vocabulary_tokens,
            end_token_ids=tuple(self._parts.tokenizer.end_token_ids),
            has_chat_template=self._parts.template.exists,
        )

    @property
    def parts(self) -> EngineParts:
        """The runner, tokenizer, template and limits in use."""
        return self._parts

    def settings(self) -> Mapping[str, str | int]:
        """What was set, and what the automatic settings became."""
        config, limits = self.config, self._parts.limits
        return {
            "compute": config.compute,
            "device": config.device,
            "kv_cache_dtype": config.kv_cache_dtype,
            "kv_pages": limits.num_pages,
            "kv_tail_pages": limits.num_tail_pages,
            "page_tokens": limits.page_tokens,
            "max_running": limits.max_running,
            "step_tokens": limits.step_tokens,
            "loaded": self._parts.summary,
        }

    def is_healthy(self) -> bool:
        """Whether calls can be served."""
        return self._loop.is_alive

    @property
    def counters(self) -> EngineStats:
        """Live counters; the engine's thread is their only writer."""
        return self._core_stats

    def stats(self) -> Mapping[str, float]:
        """The counters by metric stem; those that only grow end in `_total`."""
        return self._core_stats.metrics()

    def step_sizes(self) -> tuple[Sequence[int], Sequence[int], int]:
        """Bounds of tokens, forward passes up to each bound and behind the last, and the tokens of all."""
        stats = self._core_stats
        return STEP_TOKENS, tuple(stats.steps_by_tokens), stats.forward_tokens

    # -- tokens ------------------------------------------------------------------------------------

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        """Token ids of `text`, without a begin token; marks become special tokens only if `special`.

        `is_start`: the text opens a prompt, behind the begin tokens.
        """
        return self._parts.tokenizer.encode(text, special=special, is_start=is_start)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens; special tokens are left out, broken UTF-8 becomes U+FFFD."""
        return self._parts.tokenizer.decode(token_ids)

    def begin_tokens(self) -> tuple[int, ...]:
        """What every prompt of plain text starts with."""
        return self._parts.tokenizer.begin_tokens

    def spelling(self) -> Spelling:
        """The bytes of every token, indexed."""
        return self._spelling

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling([data or b"" for data in self._vocabulary.tokens])

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        """Token ids of a chat under the model's own template.

        Raises:
            InvalidRequest: the model has no chat template, or it refuses these messages.
            BackendError: this process is a fork of the engine's.
        """
        self._loop.process.require()
        return self._parts.template.render(messages, add_generation_prompt=open_assistant)

    def render_chat(
        self,
        messages: Sequence[Mapping[str, Json]],
        *,
        open_assistant: bool,
        tools: Sequence[Mapping[str, Json]] = (),
        variables: Mapping[str, Json] | None = None,
    ) -> tuple[int, ...]:
        """Token ids of a chat with all that templates know: tools, calls, variables such as `enable_thinking`.

        Raises:
            InvalidRequest: the model has no chat template, or it refuses these messages.
            BackendError: this process is a fork of the engine's.
        """
        self._loop.process.require()
        return self._parts.template.render(
            messages, add_generation_prompt=open_assistant, tools=tools, variables=variables
        )

    def template_text(self) -> str:
        """The source of the chat template; empty when the model has none."""
        return self._parts.template.source

    # -- generating --------------------------------------------------------------------------------

    async def generate(self, call: Call) -> AsyncIterator[Chunk]:
        """Run a call. Closing the iterator early cancels the call and frees its pages.

        Raises:
            InvalidRequest: the call is wrong as written, or its constraint cannot be kept.
            BackendError: the engine failed or is closed.
        """
        with self.submit(call) as stream:
            async for chunk in stream:
                yield chunk

    def submit(self, call: Call) -> Stream:
        """Start a call and return at once; its chunks come from the stream, in ordinary and in async code.

        Raises:
            InvalidRequest: the call is wrong as written. (A constraint that cannot be kept is told by the stream.)
            BackendError: the engine failed or is closed.
        """
        request = self._intake.request(
            call, id=next(self._ids), seed=self._seeds.getrandbits(63), now_s=self._clock()
        )
        mailbox: Mailbox[Chunk] = Mailbox(wake_loop=self._loop.bells.wake, interval_s=call.interval_s)
        sampling, tokenizer = request.sampling, self._parts.tokenizer  # a job must not keep its engine alive
        job = GenerateJob(
            request=request,
            make_text=lambda: OutputText(
                StreamDecoder(tokenizer, skip_special=sampling.skip_special),
                stops=sampling.stop,
                includes_stop=sampling.include_stop,
            ),
            sink=mailbox,
        )
        self._loop.announce(job)
        if request.constraint is None:
            self._loop.submit(job)
        else:
            self._grammars.prepare(job, is_over=lambda: mailbox.is_over)
        return Stream(self._loop, job, mailbox)

    def complete(self, call: Call) -> tuple[Completion, ...]:
        """Run a call to its end in ordinary code; one completion per output. Raises what `generate` raises."""
        with self.submit(call) as stream:
            return stream.completions()

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        """Log-probabilities of each continuation after `prefix`; beginnings they have in common are computed once.

        No continuations have no scores, and an empty one has no log-probabilities.

        Raises:
            InvalidRequest: the prefix is empty, a token id is unknown, or the lengths exceed the context.
        """
        return await self.score_alternatives(prefix, continuations, top=0, terms=terms)

    async def score_alternatives(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        *,
        top: int,
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        """As `score`, with the `top` best tokens at each place."""
        self._intake.check_scores(prefix, continuations)
        tree = ScoreTree(continuations)
        job, mailbox = self._submit_scores(prefix, tree, terms, top=top)
        try:
            return tree.scores(len(prefix), dict([item async for item in mailbox]))
        finally:
            self._loop.cancel(job)

    def score_blocking(
        self, prefix: Sequence[int], continuations: Sequence[Sequence[int]], *, top: int = 0
    ) -> list[Score]:
        """As `score`, for ordinary code; with the `top` best tokens at each place."""
        self._intake.check_scores(prefix, continuations)
        tree = ScoreTree(continuations)
        job, mailbox = self._submit_scores(prefix, tree, ORDINARY, top=top)
        try:
            return tree.scores(len(prefix), dict(mailbox.collect()))
        finally:
            self._loop.cancel(job)

    async def prompt_logprobs(self, tokens: Sequence[int]) -> Score:
        """Log-probabilities of the tokens of a prompt, all but the first, each given those before it.

        Raises:
            InvalidRequest: the prompt is empty or too long, or a token id is unknown.
        """
        (score,) = await self.score(tokens[:1], [tokens[1:]])
        return score

    async def flush_cache(self) -> int:
        """Drop all cached pages that nothing running uses; returns how many tokens they held at most."""
        pages = await asyncio.wrap_future(self._loop.ask(lambda core: core.scheduler.flush_cache()))
        return pages * self._parts.limits.page_tokens

    def flush_cache_blocking(self) -> int:
        """As `flush_cache`, for ordinary code."""
        pages = self._loop.ask(lambda core: core.scheduler.flush_cache()).result()
        return pages * self._parts.limits.page_tokens

    def check_integrity(self) -> None:
        """Assert that every page is accounted for (between two steps)."""
        self._loop.ask(lambda core: core.scheduler.check_integrity()).result()

    # -- lifetime ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel what runs, stop the thread, release the model. Closing twice is harmless."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- jobs --------------------------------------------------------------------------------------

    def _submit_scores(
        self,
        prefix: Sequence[int],
        tree: ScoreTree,
        terms: ScoreTerms,
        *,
        top: int,
    ) -> tuple[ScoreJob, Mailbox[tuple[int, PathScores]]]:
        """Queue the paths of a tree, which are one use of what the plan shares; they share the prefix among themselves."""
        now = self._clock()
        if terms.plan is not None and prefix and len(tree.paths) > 1:
            own = Share(name=f"score {next(self._ids)}", num_tokens=len(prefix), uses=1)
            terms = replace(terms, plan=replace(terms.plan, shares=(*terms.plan.shares, own)))
        requests = tuple(
            self._intake.score_request(
                prefix,
                path,
                terms,
                id=next(self._ids),
                now_s=now,
                top=top,
                plan_parts=len(tree.paths),
            )
            for path in tree.paths
        )
        mailbox: Mailbox[tuple[int, PathScores]] = Mailbox()
        job = ScoreJob(requests=requests, sink=mailbox)
        if not requests:
            mailbox.close()
            return job, mailbox
        self._loop.announce(job)
        self._loop.submit(job)
        return job, mailbox


def _shut_down(loop: EngineLoop, grammars: GrammarQueue, parts: EngineParts) -> None:
    grammars.close()
    loop.stop(then=parts.close)
