"""What ends one job and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def guarded() -> Iterator[None]:
    """What an output's own code raises inside the block becomes the failure of its job.

    Raises:
        JobFailure: the code raised an Exception; a JobFailure passes as it is.
    """
    try:
        yield
    except JobFailure:
        raise
    except Exception as error:
        raise JobFailure.because_of(error) from error


def constraint_error(error: GrammarError) -> ConstraintError:
    """What a caller is told when a grammar refuses."""
    refusal = ConstraintError(str(error), param="constraint", pointer=getattr(error, "pointer", ""))
    refusal.__cause__ = error
    return refusal
