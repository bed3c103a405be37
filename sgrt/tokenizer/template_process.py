"""A chat template in a process of its own, which is ended when a rendering takes too much time or memory.

A template comes with the model's file, which is foreign input. Jinja's sandbox keeps it from the interpreter, but a loop
in a loop, or a filter that works on a long text inside C code, cannot be interrupted from within: threads and
Python's signals do not reach it. The system's timer ends a process wherever it is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress

from sgrt.tokenizer.disguise import Json
from sgrt.tokenizer.jinja_sandbox import TemplateRefusal
from sgrt.tokenizer.template_program import TemplateFailure
from sgrt.tokenizer.template_worker import read_message, write_message

_MEMORY_BYTES = 1 << 30
_CLOSING_S = 2.0


class TemplateProcess:
    """A `TemplateProgram` that cannot run for ever. The process starts with the first rendering, and again after an end."""

    def __init__(self, source: str, *, limit_s: float) -> None:
        """`limit_s`: seconds of processor time one rendering may take."""
        self._first = {"source": source, "limit_s": float(limit_s), "memory_bytes": _MEMORY_BYTES}
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def run(self, values: Mapping[str, Json]) -> str:
        """As `TemplateProgram.run`; taking too long is a failure. Blocks the calling thread."""
        with self._lock:
            answer = self._ask(values)
        if "text" in answer:
            return str(answer["text"])
        if "refusal" in answer:
            raise TemplateRefusal(str(answer["refusal"]))
        raise TemplateFailure(str(answer["failure"]))

    def close(self) -> None:
        """End the process. Renderings that come later fail."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                _end(self._process)
                self._process = None

    def _ask(self, values: Mapping[str, Json]) -> Mapping[str, object]:
        if self._is_closed:
            raise TemplateFailure("is closed")
        is_new = self._process is None
        process = self._process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None, "started with pipes"
        try:
            if is_new:
                write_message(process.stdin, self._first)
            write_message(process.stdin, values)
            answer = read_message(process.stdout)
        except BrokenPipeError:
            answer = None
        except (
            BaseException
        ):  # an interrupt, say: its answer may still come, and would be taken for the next one's
            self._process = None
            process.kill()
            _end(process)
            raise
        if answer is not None:
            return answer
        self._process = None
        _end(process)
        return {"failure": self._cause(process.returncode)}

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "sgrt.tokenizer.template_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        weakref.finalize(self, _end, process)
        return process

    def _cause(self, code: int | None) -> str:
        if code == -signal.SIGPROF:
            return f"failed on these messages: it ran for more than {self._limit_s:g} s"
        return f"failed on these messages: its process ended ({code})"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let the process go; kill it if it does not."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):  # it went first
            process.stdin.close()
    try:
        process.wait(_CLOSING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
