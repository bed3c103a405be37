"""A variable of a state: a value that may still be on its way, and how it came about."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from sgrt_frontend.call import Origin, StopReason, TokenInfo, Usage
from sgrt_frontend.errors import Cancelled, ProgramError, SgrtError
from sgrt_frontend.source import Source, passed_through


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One generated text: its tokens, why it ended, and logprobs where asked for."""

    text: str
    token_ids: tuple[int, ...]
    stop_reason: StopReason
    stop: str | int | None
    usage: Usage
    logprobs: tuple[TokenInfo, ...] = ()
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """How a variable came about.

    `usage` adds up all samples and attempts. `probabilities` and `unexplored` (a bound on the weight of
    spellings that were not summed, as a fraction of all weight) belong to `select`.
    """

    usage: Usage
    samples: tuple[Sample, ...] = ()
    attempts: int = 1
    seconds: float = 0.0
    probabilities: Mapping[str, float] = field(default_factory=dict)
    unexplored: float = 0.0

    @property
    def stop_reason(self) -> StopReason:
        """Why the first sample ended."""
        return self.samples[0].stop_reason

    @property
    def logprobs(self) -> tuple[TokenInfo, ...]:
        """Logprobs of the first sample's tokens."""
        return self.samples[0].logprobs


class Planned:
    """Base of stand-ins for values of any type; type checks of variables let them pass."""

    __slots__ = ()


class Deferred:
    """Base of values that are decided when their variable is read; only plans have them."""

    __slots__ = ()

    def reveal(self) -> object:
        """The value."""
        raise NotImplementedError


class Slot:
    """One variable. The run's loop sets it once; any thread may wait for it.

    `was_raised` remembers that the program has seen its error, so that the run need not raise it again.
    """

    __slots__ = ("_future", "meta", "name", "parts", "source", "upstream", "was_raised")

    def __init__(self, name: str, source: Source) -> None:
        self.name = name
        self.source = source
        self.meta: Meta | None = None
        self.was_raised = False
        self.upstream: Slot | None = None  # whose failure this one's comes from
        self.parts: tuple[Slot, ...] | None = None  # the value is the list of theirs
        self._future: Future[object] = Future()

    @classmethod
    def holding(cls, name: str, value: object, source: Source) -> Slot:
        """A variable the program set itself."""
        slot = cls(name, source)
        slot.succeed(value, None)
        return slot

    @property
    def is_done(self) -> bool:
        """Whether the value, or the failure, is there."""
        return self._future.done()

    @property
    def failure(self) -> BaseException | None:
        """Why there is no value, once that is known."""
        return self._future.exception() if self._future.done() else None

    def succeed(self, value: object, meta: Meta | None) -> None:
        """Set the value; later settings are ignored (the variable was cancelled in between)."""
        if not self._future.done():
            self.meta = meta
            self._future.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Set the failure; ignored once a value or failure is there."""
        if not self._future.done():
            self._future.set_exception(error)

    def wait(self) -> object:
        """Block until the value is there.

        Raises:
            ProgramError: the call that makes the variable failed.
        """
        try:
            return _revealed(self._future.result())
        except BaseException as error:
            _forget_frames(error)
            raised = self._raised(error)
            if raised is error:  # the wait itself was interrupted
                raise
            raise raised from error

    async def get(self) -> object:
        """Await the value. Raises as `wait` does."""
        waited = asyncio.wrap_future(self._future)
        waited.add_done_callback(_seen)  # whoever waits may be cancelled before the failure comes
        try:
            return _revealed(await asyncio.shield(waited))
        except BaseException as error:
            if not self._future.done():  # the waiting task was cancelled, not the variable
                raise
            _forget_frames(error)
            raise self._raised(error) from error

    def blame(self) -> ProgramError:
        """The failure as a ProgramError with this variable's place, for what depends on it."""
        error = self.failure
        if isinstance(error, ProgramError):
            message = f"{self._shown} was not generated, because what stands before it failed: {error}"
        else:
            message = f"generating {self._shown} failed: {type(error).__name__}: {error}"
        return ProgramError(message, variable=self.name, source=str(self.source))

    @property
    def _shown(self) -> str:
        return repr(self.name) if self.name else "a value"

    def _raised(self, error: BaseException) -> BaseException:
        if not self._future.done():
            return error
        self.was_raised = True
        if self.upstream is not None:
            self.upstream.was_raised = True
        if isinstance(error, Cancelled):
            return Cancelled(f"{self.source}: {self._shown}: {error}", by_backend=error.by_backend)
        return self.blame()


class ResultSlot(Slot):
    """What a body returned. Its failure is told by the line of the body that it came through."""

    __slots__ = ("_line",)

    def __init__(self, name: str, source: Source) -> None:
        super().__init__(name, source)
        self._line: Source | None = None

    def fail(self, error: BaseException) -> None:
        """Set the failure; ignored once a value or failure is there."""
        if not self.is_done:
            self._line = passed_through(error)
        super().fail(error)

    def blame(self) -> ProgramError:
        """The failure with the line of the body."""
        error = self.failure
        shown = str(error) if isinstance(error, ProgramError) else f"{type(error).__name__}: {error}"
        return ProgramError(
            f"the body failed: {shown}", variable=self.name, source=str(self._line or self.source)
        )


def _forget_frames(error: BaseException) -> None:
    """Have a failure shown in a line below the program's own error: what was raised on purpose says all in its
    message, and it came through frames of the runtime. Any other failure keeps its frames: they say where it lies.
    """
    if isinstance(error, SgrtError):
        error.__traceback__ = None


def _seen(future: asyncio.Future[object]) -> None:
    if not future.cancelled():
        future.exception()


def _revealed(value: object) -> object:
    if isinstance(value, Deferred):
        return value.reveal()
    if isinstance(value, list) and any(isinstance(item, Deferred) for item in value):
        return [item.reveal() if isinstance(item, Deferred) else item for item in value]
    return value
