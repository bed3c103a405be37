"""Which process something was made in: threads, pipes and connections do not survive a fork."""

from __future__ import annotations

import os

from sgrt.errors import BackendError


class ProcessMark:
    """Made with what belongs to one process; `require` refuses its use in a child made by `os.fork`."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is the process it was made in."""
        return os.getpid() == self._pid

    def require(self) -> None:
        """Refuse to go on in a forked child, where it would wait for threads that are not there.

        Raises:
            BackendError: this is another process.
        """
        if not self.is_here:
            raise BackendError(
                f"the engine runs in process {self._pid}, which made it, and this is {os.getpid()}, forked from it; make an "
                "engine in each process (multiprocessing's start method `spawn` does), or let them share a server: "
                "sgrt.HttpBackend(...)"
            )
