"""What ends one job and nothing else."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from sgrt.errors import BackendError, ConstraintError, SgrtError
from sgrt_grammars.errors import GrammarError


class JobFailure(Exception):
    """Code of one output failed: its grammar, its text, its parameters. Its job ends with `error`, others go on.

    Only what an output has to itself is guarded by this. Whatever goes wrong in the scheduler, the runner or
    the sampler concerns all, and is left to end the engine's thread.
    """

    def __init__(self, error: SgrtError) -> None:
        super().__init__(str(error))
        self.error = error

    @classmethod
    def because_of(cls, cause: Exception) -> Self:
        """The failure of an output whose code raised `cause`."""
        if isinstance(cause, GrammarError):
            return cls(constraint_error(cause))
        error = BackendError(f"the call failed: {type(cause).__name__}: {cause}")
        error.__cause__ = cause
        return cls(error)


class _Guard:
    """Turns what is raised inside its block into a `JobFailure`. Stateless: one does for every block."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, JobFailure):
            raise JobFailure.because_of(error) from error


_GUARD = _Guard()


def guarded() -> _Guard:
    """What an output's own code raises inside the block becomes the failure of its job.

    Raises:
        JobFailure: the code raised an Exception; a JobFailure passes as it is.
    """
    return _GUARD


def constraint_error(error: GrammarError) -> ConstraintError:
    """What a caller is told when a grammar refuses."""
    refusal = ConstraintError(str(error), param="constraint", pointer=getattr(error, "pointer", ""))
    refusal.__cause__ = error
    return refusal
