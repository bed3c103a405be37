"""How a program is run: the backend, defaults for its calls, seed, limits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from numbers import Integral

from sgrt_frontend.backend import Backend
from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.numbers import is_number, require_seconds
from sgrt_frontend.sampling import SamplingOptions


class RunSettings(SamplingOptions, total=False):
    """What `Program.with_options` takes: defaults for every call, and limits of the run.

    A `gen`'s own parameters win over these. `seed` makes a run repeatable: every call
    draws from a seed of its own derived from it. `timeout_s` bounds the whole run. `planned=False` traces nothing ahead:
    the body runs as it stands, in a batch too, and no call says what is known of the others.
    """

    backend: Backend
    timeout_s: float | None
    priority: int
    cache_salt: str
    planned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Settings in effect."""

    backend: Backend | None = None
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    seed: int | None = None
    timeout_s: float | None = None
    priority: int = 0
    cache_salt: str = ""
    planned: bool = True

    def __post_init__(self) -> None:
        if self.timeout_s is not None:
            require_seconds(self.timeout_s, "timeout_s")
        for name, kind, wanted in (
            ("priority", Integral, "a whole number"),
            ("cache_salt", str, "a text"),
            ("planned", bool, "True or False"),
        ):
            value = getattr(self, name)
            if not (isinstance(value, kind) if kind is not Integral else is_number(value, Integral)):
                raise InvalidRequest(f"{name}: must be {wanted}, not {value!r}", param=name)


_backend: ContextVar[Backend | None] = ContextVar("sgrt_backend", default=None)


@contextlib.contextmanager
def use_backend(backend: Backend) -> Iterator[Backend]:
    """Programs run inside this block, in this thread or task, use `backend` unless they name another."""
    token = _backend.set(checked_backend(backend))
    try:
        yield backend
    finally:
        _backend.reset(token)


def checked_backend(backend: Backend) -> Backend:
    """The backend itself.

    Raises:
        TypeError: it is something else: the name of a model, say.
    """
    is_one = all(callable(getattr(backend, name, None)) for name in ("describe", "encode", "generate"))
    if is_one and not isinstance(backend, type):
        return backend
    shown = repr(backend) if isinstance(backend, str) else f"a {type(backend).__name__}"
    example = f"sgrt.Engine({backend!r})" if isinstance(backend, str) else 'sgrt.Engine("smollm2")'
    raise TypeError(f"backend: {shown} is no backend; pass one that runs a model, such as {example}")


def backend_of(options: RunOptions) -> Backend:
    """The backend named by the options, or that of the surrounding `use_backend` block.

    Raises:
        InvalidRequest: there is neither.
    """
    backend = options.backend or _backend.get()
    if backend is None:
        raise InvalidRequest(
            "the program has no backend; write `program.on(engine).run(...)` or run it inside `with use_backend(engine):`",
            param="backend",
        )
    return backend
