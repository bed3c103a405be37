"""Constraints become grammars on a thread of their own: compiling one may take seconds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakSet

from sgrt.engine.guide import Grammar
from sgrt.engine.job import GenerateJob
from sgrt.engine.job_failure import JobFailure
from sgrt.engine.loop import EngineLoop
from sgrt.errors import BackendError
from sgrt.request import Request
from sgrt_grammars.compiler import GrammarCompiler
from sgrt_grammars.errors import BudgetTooSmall
from sgrt_grammars.grammar import Grammar as CompiledGrammar


class GrammarQueue:
    """Compiles the constraints of announced jobs, one after the other, and submits the jobs.

    Known grammars do not queue, and constraints of jobs that are over by their turn are not compiled. A grammar whose
    shortest text was searched for in vain is not known: the search would stop the caller for seconds each time.
    """

    def __init__(self, compiler: GrammarCompiler, loop: EngineLoop) -> None:
        self._compiler = compiler
        self._loop = loop
        self._known: WeakSet[CompiledGrammar] = WeakSet()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sgrt-grammar")

    def prepare(self, job: GenerateJob, *, is_over: Callable[[], bool]) -> None:
        """Submit `job` with its grammar, now or later; what the grammar refuses ends the job.

        Raises:
            BackendError: the queue is closed.
        """
        assert job.request.constraint is not None, "only constraints are compiled"
        if self._compiler.cached(job.request.constraint) in self._known:
            self._submit(job)
            return

        def compile_if_wanted() -> None:
            if not is_over():
                self._submit(job)

        try:
            self._thread.submit(compile_if_wanted)
        except RuntimeError as error:
            raise BackendError("the engine is closed") from error

    def close(self) -> None:
        """Drop what waits. What is being compiled goes on in the background, and nobody hears of it."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self, job: GenerateJob) -> None:
        try:
            grammar = self._grammar(job.request)
        except Exception as error:
            failure = JobFailure.because_of(error)
            self._loop.fail(job, failure.error)
            if isinstance(failure.error, BackendError):
                raise
        else:
            self._loop.submit_if_open(job, grammar)

    def _grammar(self, request: Request) -> Grammar:
        """The grammar of a request, whose budget is looked at before any prefill."""
        assert request.constraint is not None, "only constraints are compiled"
        grammar = self._compiler.compile(request.constraint)
        needed = grammar.minimum_tokens
        self._known.add(grammar)
        if needed > request.max_tokens:
            raise BudgetTooSmall(needed=needed, given=request.max_tokens)
        return grammar
