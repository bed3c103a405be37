"""The engine's thread: the only one that touches the cache and the sequences."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from sgrt.engine.bells import Bells
from sgrt.engine.core import EngineCore
from sgrt.engine.guide import Grammar
from sgrt.engine.job import GenerateJob, Job
from sgrt.errors import BackendError
from sgrt.process_mark import ProcessMark

T = TypeVar("T")

_LONGEST_WAIT_S = 3600.0  # the system's own limit for a timed wait is not the same everywhere


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    """Something to do on the engine's thread, and what to do instead when the thread has failed."""

    run: Callable[[], None]
    abandon: Callable[[Exception], None]


class EngineLoop:
    """Drives an `EngineCore` on a thread; others talk to it through a queue of commands.

    If a step fails for a reason that no single request is to blame for, every job ends with a
    `BackendError`, the thread stops, and new jobs are refused: the state can no longer be trusted.
    """

    def __init__(self, core: EngineCore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.bells = Bells()
        self.process = ProcessMark()
        self._core = core
        self._clock = clock
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        # Orders commands before the end of the thread. Reentrant: a collected engine may be stopped anywhere.
        self._lock = threading.RLock()
        self._at_end: Callable[[], None] = _nothing
        self._is_stopping = False
        self._closed_by: BackendError | None = None
        self._thread = threading.Thread(target=self._main, name="sgrt-engine", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether jobs are taken."""
        return self._closed_by is None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, then: Callable[[], None] = _nothing) -> None:
        """Cancel all jobs, end the thread, and do `then`, when nothing runs any more. In a forked child do nothing: the
        thread, and what `then` would release, are the parent's.

        Called on the engine's own thread (where a forgotten engine may be collected) it returns at once, and the
        thread ends after the step it is in.
        """
        if not self.process.is_here:
            return
        self._close(BackendError("the engine is closed"))
        is_own_thread = threading.current_thread() is self._thread
        if is_own_thread:
            self._at_end = then
        if self._thread.is_alive():
            self._commands.put(_Command(run=self._request_stop, abandon=lambda error: None))
        if not is_own_thread:
            self._thread.join()
            then()

    def announce(self, job: Job) -> None:
        """Take in a job that is still being prepared; its deadline counts from now.

        Raises:
            BackendError: the engine is closed or has failed.
        """
        self._post(lambda: self._core.announce(job), job.sink.fail)

    def submit(self, job: Job, grammar: Grammar | None = None) -> None:
        """Start an announced job.

        Raises:
            BackendError: the engine is closed or has failed.
        """
        self._post(lambda: self._core.submit(job, grammar), job.sink.fail)

    def submit_if_open(self, job: Job, grammar: Grammar) -> None:
        """As `submit`, for work that finished in the background: nobody is there to be told of a closed engine."""
        self._post_if_open(lambda: self._core.submit(job, grammar), job.sink.fail)

    def fail(self, job: Job, error: Exception) -> None:
        """End a job with an error; harmless when it is over or the engine closed."""
        self._post_if_open(lambda: self._core.fail(job, error), job.sink.fail)

    def cancel(self, job: Job) -> None:
        """End a job's outputs now; harmless when it is over or the engine closed."""
        self._post_if_open(lambda: self._core.cancel(job), job.sink.fail)

    def cancel_output(self, job: GenerateJob, index: int) -> None:
        """End one output of a job now; harmless when it is over or the engine closed."""
        self._post_if_open(lambda: self._core.cancel_output(job, index), job.sink.fail)

    def ask(self, question: Callable[[EngineCore], T]) -> Future[T]:
        """Have `question` answered on the engine's thread, between steps.

        Raises:
            BackendError: the engine is closed or has failed.
        """
        answer: Future[T] = Future()
        answer.set_running_or_notify_cancel()

        def command() -> None:
            try:
                answer.set_result(question(self._core))
            except BaseException as error:
                answer.set_exception(error)
                raise

        self._post(command, answer.set_exception)
        return answer

    def _post(self, run: Callable[[], None], abandon: Callable[[Exception], None]) -> None:
        self.process.require()  # before the lock: a fork may have copied it locked
        with self._lock:
            if self._closed_by is not None:
                raise BackendError(str(self._closed_by)) from self._closed_by.__cause__
            self._commands.put(_Command(run=run, abandon=abandon))

    def _post_if_open(self, run: Callable[[], None], abandon: Callable[[Exception], None]) -> None:
        if not self.process.is_here:
            return
        with self._lock:
            if self._closed_by is None:
                self._commands.put(_Command(run=run, abandon=abandon))

    def _close(self, error: BackendError) -> None:
        with self._lock:
            if self._closed_by is None:
                self._closed_by = error

    def _request_stop(self) -> None:
        self._is_stopping = True

    def _main(self) -> None:
        try:
            while not self._is_stopping:
                self._run_commands()
                if not self._is_stopping and self._core.has_work:
                    self._core.step(self._clock())
                self.bells.ring()
            self._core.cancel_all()
        except BaseException as cause:
            failure = BackendError(f"the engine failed: {type(cause).__name__}: {cause}")
            failure.__cause__ = cause
            self._close(failure)
            self._core.fail_all(failure)
            while not self._commands.empty():
                self._commands.get().abandon(failure)
            raise
        finally:
            self.bells.ring()
            self._at_end()

    def _run_commands(self) -> None:
        """Run what was posted; when there is nothing to compute, wait for a command or a deadline."""
        if not self._core.has_sequences:
            deadline = self._core.next_deadline_s()
            timeout = None if deadline is None else min(max(0.0, deadline - self._clock()), _LONGEST_WAIT_S)
            try:
                self._commands.get(timeout=timeout).run()
            except queue.Empty:
                return
        while not self._commands.empty():
            self._commands.get().run()
