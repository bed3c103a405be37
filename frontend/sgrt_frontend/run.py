"""One execution of a program: its loop, backend, defaults, calls in flight and seed."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sgrt_frontend.call import CallPlan, Usage
from sgrt_frontend.caller import Caller
from sgrt_frontend.chain import Link
from sgrt_frontend.encoder import Encoder
from sgrt_frontend.errors import Cancelled, DeadlineExceeded, InvalidRequest, ProgramError, SgrtError
from sgrt_frontend.events import Event
from sgrt_frontend.frames import EXITS, UserFrames
from sgrt_frontend.options import RunOptions
from sgrt_frontend.rope import Rope
from sgrt_frontend.scope import Scope
from sgrt_frontend.slot import Slot
from sgrt_frontend.totals import NOTHING_USED, added
from sgrt_frontend.trace import Trace

if TYPE_CHECKING:
    from sgrt_frontend.step import Step

T = TypeVar("T")


class Recorder(Protocol):
    """Is told of every step of every history of a run."""

    def add(self, before: Link, after: Link, step: Step, slot: Slot | None) -> None:
        """A history goes on by a step."""
        ...


class Outlook(Protocol):
    """Knows the calls of a run before they are made."""

    def call_plan(self, label: str, before: Rope) -> CallPlan | None:
        """What is known of the call that stands behind `before`."""
        ...


def derived_seed(seed: int, place: str) -> int:
    """A seed in [0, 2**63) that depends on a seed and a place alone."""
    digest = hashlib.blake2b(f"{seed}|{place}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def in_thread(method: str) -> str:
    """How an async body calls what waits for a state's text."""
    return f"await asyncio.to_thread(s.{method})"


class Run:
    """Owns the calls of one execution. Made on its loop; states of any thread append through it."""

    def __init__(
        self,
        *,
        encoder: Encoder,
        caller: Caller,
        options: RunOptions,
        program: str,
        seed: int | None = None,
        listener: Callable[[Event], None] | None = None,
    ) -> None:
        self.encoder = encoder
        self.caller = caller
        self.options = options
        self.listener = listener
        self.seed = seed if seed is not None else secrets.randbits(63)
        self.trace = Trace(program=program, seed=self.seed, memo=encoder.backend.memo)
        self.scope = Scope(None)
        self.is_over = False
        self.recorder: Recorder | None = None
        self.outlook: Outlook | None = None
        self.taint: Callable[[object], object] | None = None  # in a plan: marks text that holds stand-ins
        self.usage = NOTHING_USED
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._slots: list[Slot] = []
        self._open_tasks: set[asyncio.Task[Any]] = set()
        self._blamed: dict[int, Slot] = {}  # id of an error handed down a history -> where it began
        self._blame_errors: list[ProgramError] = []  # keeps those ids from being used again

    @property
    def is_on_loop(self) -> bool:
        """Whether the caller runs on the loop's thread, where blocking would never end."""
        return threading.get_ident() == self._loop_thread

    def seed_of(self, label: str, attempt: int = 0) -> int:
        """The seed of a call: from the run's seed and the call's place, so that order does not matter."""
        return derived_seed(self.seed, f"{label}|{attempt}")

    def on_loop(self, action: Callable[[], object]) -> None:
        """Run an action on the loop, in the order of these calls."""
        if self.is_over:
            raise InvalidRequest("the run is over; its states can be read, not continued", param="state")
        if self.is_on_loop:
            action()
        else:
            self._loop.call_soon_threadsafe(action)

    def start(
        self, before: Link, extend: Callable[[Rope], Awaitable[Rope]], *, scope: Scope, slot: Slot | None
    ) -> Link:
        """Continue a history: `extend` gets the rope before and returns the one after, on the loop."""
        link = Link()
        if slot is not None:
            self._slots.append(slot)

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled():  # also when it was cancelled before its first step
                self._settle_failure(link, slot, asyncio.CancelledError())

        def begin() -> None:
            link.begin()
            if scope.reason is not None:
                self._settle_failure(link, slot, scope.reason)
                return
            task = self.spawn(self._drive(before, link, extend, slot), scope=scope, slot=slot)
            task.add_done_callback(ended)

        self.on_loop(begin)
        return link

    def spawn(
        self, work: Coroutine[Any, Any, None], *, scope: Scope, slot: Slot | None = None
    ) -> asyncio.Task[None]:
        """Run work inside a scope. On the loop."""
        task = self._loop.create_task(_contained(work, slot))
        task.add_done_callback(lambda _: work.close())  # a task may be cancelled before it begins
        self._open_tasks.add(task)
        task.add_done_callback(self._open_tasks.discard)
        scope.add(task, slot)
        return task

    async def _drive(
        self, before: Link, link: Link, extend: Callable[[Rope], Awaitable[Rope]], slot: Slot | None
    ) -> None:
        try:
            link.settle(await extend(await before.rope()))
        except (Exception, *EXITS) as error:  # noqa: BLE001 - handed on to whoever reads the variable
            self._settle_failure(link, slot, error)

    def _settle_failure(self, link: Link, slot: Slot | None, error: BaseException) -> None:
        if link.is_done:
            return
        if slot is None:
            link.fail(error)
            return
        slot.fail(Cancelled("the call was cancelled") if isinstance(error, asyncio.CancelledError) else error)
        slot.upstream = self._blamed.get(id(error))
        if slot.upstream is None:
            error = slot.blame()
            self._blamed[id(error)] = slot
            self._blame_errors.append(error)
        link.fail(error)

    def add_usage(self, usage: Usage) -> None:
        """Count what a call used. On the loop."""
        self.usage = added(self.usage, usage)

    def watch(self, slot: Slot) -> None:
        """Raise this variable's failure at the end of the run if the program never looks at it."""
        self._slots.append(slot)

    def wait(self, slot: Slot, *, awaited: str = "") -> object:
        """Block until a variable has its value. `awaited` is what an async body writes instead.

        Raises:
            InvalidRequest: an async body would block its own loop.
            ProgramError: the call failed.
        """
        if self.is_on_loop and not slot.is_done:
            raise InvalidRequest(
                f"an async program awaits its values: write `{awaited or f'await s.get({slot.name!r})'}`; a program called "
                "inside it that waits for its own values has to be async as well",
                param=slot.name,
            )
        with UserFrames():
            return slot.wait()

    async def finish(self) -> None:
        """Wait for all calls; raise the first failure that the program has not seen itself."""
        while self._open_tasks:
            await asyncio.wait(self._open_tasks)
        self.is_over = True
        self.scope.close()
        for slot in self._slots:
            failure = slot.failure
            if failure is not None and not slot.was_raised and not _is_wanted(failure):
                await slot.get()

    def overdue(self, clock: asyncio.Timeout, error: BaseException) -> DeadlineExceeded | None:
        """That the run took too long, if its time was up when it ended with `error`.

        A body may raise a TimeoutError of its own, and a run may be cancelled from outside.
        """
        if not clock.expired() or not isinstance(error, Exception):
            return None
        return DeadlineExceeded(f"the run took longer than its timeout of {self.options.timeout_s} s")

    async def abort(self, reason: SgrtError | None = None) -> None:
        """Cancel all calls and wait until they are gone."""
        self.scope.cancel(reason or Cancelled("the run was cancelled"))
        while self._open_tasks:
            for task in self._open_tasks:
                task.cancel()
            await asyncio.wait(self._open_tasks)
        self.is_over = True


def _is_wanted(failure: BaseException) -> bool:
    """Whether the program itself cancelled the call."""
    return isinstance(failure, Cancelled) and not failure.by_backend


async def _contained(work: Coroutine[Any, Any, None], slot: Slot | None) -> None:
    try:
        await work
    except EXITS as error:
        if slot is not None:
            slot.fail(error)
