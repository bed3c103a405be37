"""The process in which a `TemplateProcess` renders: reads values, writes text, and is ended by the system's timer.

Messages are JSON, each after its length in eight bytes. The first names the source, the seconds of processor time a
rendering may take and the bytes of memory the process may have; every other is one rendering.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Mapping
from typing import IO

from sgrt.tokenizer.jinja_sandbox import TemplateRefusal
from sgrt.tokenizer.template_program import LocalTemplate, TemplateFailure

LENGTH_BYTES = 8


def read_message(stream: IO[bytes]) -> dict[str, object] | None:
    """The next message; None where the stream ends before a whole one."""
    head = stream.read(LENGTH_BYTES)
    length = int.from_bytes(head, "big")
    body = stream.read(length)
    if len(head) < LENGTH_BYTES or len(body) < length:
        return None
    message: dict[str, object] = json.loads(body)
    return message


def write_message(stream: IO[bytes], message: Mapping[str, object]) -> None:
    """Send a message. JSON's escapes carry half surrogates too."""
    body = json.dumps(message).encode("ascii")
    stream.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)
    stream.flush()


def main() -> None:
    """Render until the input ends."""
    source, output = sys.stdin.buffer, sys.stdout.buffer
    first = read_message(source)
    if first is None:
        return
    text, limit_s, memory = first["source"], first["limit_s"], first["memory_bytes"]
    assert isinstance(text, str) and isinstance(limit_s, float) and isinstance(memory, int), (
        "sent by ourselves"
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the process that uses this one
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends this process, wherever it is
    resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    template = LocalTemplate(text)
    while (message := read_message(source)) is not None:
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        answer = _answer(template, message)
        signal.setitimer(signal.ITIMER_PROF, 0)
        write_message(output, answer)


def _answer(template: LocalTemplate, values: Mapping[str, object]) -> dict[str, object]:
    try:
        return {"text": template.run(values)}  # type: ignore[arg-type]  # JSON by its reading
    except TemplateRefusal as error:
        return {"refusal": str(error)}
    except TemplateFailure as error:
        return {"failure": str(error)}


if __name__ == "__main__":
    main()
