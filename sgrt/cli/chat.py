"""`sgrt chat`: talk to a model in the terminal, in process or at a server, with branches and shapes."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sgrt.backend.http import HttpBackend
from sgrt.cli.options import add_context_tokens, add_device, add_kv_cache_dtype, add_model, model_of
from sgrt.cli.user_file import read_text
from sgrt.config import KvCacheDtype
from sgrt.errors import SgrtError
from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Call, Finish, Message, Role, SamplingParams, StopReason
from sgrt_grammars.constraint import Constraint, JsonSchema

_HELP = """commands
  /system TEXT      set the system message (starts over)
  /schema FILE      answers must satisfy this JSON Schema; /schema off ends it
  /fork             go on in a copy of this conversation; the old one stays as it is
  /branch N         switch to branch N; /branch lists them
  /undo             take back the last turn
  /again            answer the last message once more
  /set NAME VALUE   temperature, top_p, max_tokens or seed
  /reset            start over
  /quit             leave"""

Write = Callable[[str], None]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "chat",
        help="talk to a model in the terminal",
        description="Talk to a model; /help lists the commands.",
    )
    add_model(parser, is_positional=True)
    parser.add_argument(
        "--url", default="", help="a running sgrt server, in place of a model in this process"
    )
    parser.add_argument("--api-key", default="", help="the server's key")
    parser.add_argument("--system", default="", help="a system message")
    parser.add_argument("--temperature", type=float, default=0.7, help="0 is greedy (default: %(default)s)")
    parser.add_argument("--max-tokens", type=int, default=512, help="of an answer (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=None, help="CPU threads (default: all cores)")
    add_context_tokens(parser)
    add_device(parser)
    add_kv_cache_dtype(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read lines until the end of input or /quit."""
    sampling = SamplingParams(temperature=arguments.temperature, max_tokens=arguments.max_tokens)

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    _edit_lines()
    with _backend(arguments) as backend:
        write(f"{backend.describe().model}: /help lists the commands, /quit leaves\n")
        terminal = Terminal(backend, write, sampling=sampling, system=arguments.system)
        while True:
            try:
                line = input(terminal.prompt)
            except (EOFError, KeyboardInterrupt):
                write("\n")
                return 0
            if not terminal.take(line):
                return 0


def _edit_lines() -> None:
    """Arrow keys move in the line and bring back earlier ones, where the system can; nothing is kept on disk."""
    if sys.stdin.isatty():
        with suppress(ImportError):
            importlib.import_module("readline")  # `input` uses it once it is there


@contextmanager
def _backend(arguments: argparse.Namespace) -> Iterator[Backend]:
    if arguments.url:
        with HttpBackend(arguments.url, api_key=arguments.api_key) as remote:
            yield remote
        return
    from sgrt.engine.engine import Engine  # noqa: PLC0415 (a chat with a server needs no torch)

    kv_cache_dtype: KvCacheDtype = arguments.kv_cache_dtype
    with Engine(
        model_of(arguments),
        threads=arguments.threads,
        device=arguments.device,
        kv_cache_dtype=kv_cache_dtype,
        context_tokens=arguments.context_tokens,
    ) as engine:
        yield engine


@dataclass(slots=True, kw_only=True)
class Branch:
    """One conversation."""

    messages: list[Message] = field(default_factory=list)

    def copy(self) -> Branch:
        """A branch that goes on from here."""
        return Branch(messages=list(self.messages))


class Terminal:
    """A chat as a sequence of lines. `take` handles one line; what it says goes to `write`."""

    def __init__(
        self, backend: Backend, write: Write, *, sampling: SamplingParams | None = None, system: str = ""
    ) -> None:
        self._backend = backend
        self._write = write
        self._sampling = sampling or SamplingParams(max_tokens=512)
        self._system = system
        self._schema: Constraint | None = None
        self._branches = [self._fresh()]
        self._current = 0
        self._commands: dict[str, Callable[[str], None]] = {
            "/help": lambda rest: self._write(_HELP + "\n"),
            "/system": self._set_system,
            "/schema": self._set_schema,
            "/fork": self._fork,
            "/branch": self._switch,
            "/undo": self._undo,
            "/again": self._again,
            "/set": self._set,
            "/reset": lambda rest: self._reset(),
        }

    @property
    def prompt(self) -> str:
        """What stands before the line that is typed."""
        return f"[{self._current}] > " if len(self._branches) > 1 else "> "

    def take(self, line: str) -> bool:
        """Handle a line; false ends the chat."""
        line = line.strip()
        if line in ("/quit", "/exit"):
            return False
        word, _, rest = line.partition(" ")
        try:
            if word.startswith("/"):
                self._command(word, rest.strip())
            elif line:
                self._answer([*self._branch.messages, Message(role=Role.USER, content=line)])
        except SgrtError as error:
            self._write(f"! {error}\n")
        return True

    @property
    def _branch(self) -> Branch:
        return self._branches[self._current]

    def _fresh(self) -> Branch:
        if not self._system:
            return Branch()
        return Branch(messages=[Message(role=Role.SYSTEM, content=self._system)])

    def _command(self, word: str, rest: str) -> None:
        command = self._commands.get(word)
        if command is None:
            self._write(f"! no command {word}; /help lists them\n")
        else:
            command(rest)

    def _answer(self, messages: list[Message]) -> None:
        """Stream the answer to `messages` and go on from there; a chat whose answer fails stays as it was."""
        try:
            text, finish, seconds = asyncio.run(self._stream(tuple(messages)))
        except (SgrtError, KeyboardInterrupt) as error:
            self._write(f"\n! {str(error) or 'interrupted'}; the chat is as it was before\n")
            return
        self._branch.messages = [*messages, Message(role=Role.ASSISTANT, content=text)]
        self._write(f"\n{_cost(finish, seconds)}\n")

    async def _stream(self, messages: tuple[Message, ...]) -> tuple[str, Finish | None, float]:
        prompt = self._backend.render(messages, open_assistant=True)
        call = Call(prompt=prompt, sampling=self._sampling, constraint=self._schema)
        pieces: list[str] = []
        finish: Finish | None = None
        start = time.monotonic()
        async for chunk in self._backend.generate(call):
            pieces.append(chunk.text)
            self._write(chunk.text)
            finish = chunk.finish or finish
        return "".join(pieces), finish, time.monotonic() - start

    def _set_system(self, rest: str) -> None:
        self._system = rest
        self._reset()

    def _set_schema(self, rest: str) -> None:
        if rest in ("", "off"):
            self._schema = None
            self._write("answers are free\n")
            return
        self._schema = JsonSchema(text=read_text(Path(rest), "/schema"))
        self._write(f"answers satisfy {rest}\n")

    def _fork(self, rest: str) -> None:
        self._branches.append(self._branch.copy())
        self._current = len(self._branches) - 1
        self._write(f"branch {self._current}: what was said so far is shared with the branch before\n")

    def _switch(self, rest: str) -> None:
        if rest.isdigit() and int(rest) < len(self._branches):
            self._current = int(rest)
        for number, branch in enumerate(self._branches):
            said = [message.content for message in branch.messages if message.role is Role.USER]
            mark = "*" if number == self._current else " "
            self._write(f"{mark} {number}: {len(said)} turns, last: {(said or ['-'])[-1][:60]}\n")

    def _undo(self, rest: str) -> None:
        messages = self._branch.messages
        while messages and messages[-1].role is not Role.USER:
            messages.pop()
        if messages:
            self._write(f"taken back: {messages.pop().content[:60]}\n")

    def _again(self, rest: str) -> None:
        messages = list(self._branch.messages)
        if messages and messages[-1].role is Role.ASSISTANT:
            messages.pop()
        if messages and messages[-1].role is Role.USER:
            self._answer(messages)

    def _set(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        kinds: dict[str, type[int] | type[float]] = {
            "temperature": float,
            "top_p": float,
            "max_tokens": int,
            "seed": int,
        }
        try:
            number = kinds[name](value)
        except (KeyError, ValueError):
            self._write("! /set temperature|top_p|max_tokens|seed VALUE\n")
            return
        self._sampling = replace(self._sampling, **{name: number})  # type: ignore[arg-type]  # checked by name
        self._write(f"{name} is {number}\n")

    def _reset(self) -> None:
        self._branches = [self._fresh()]
        self._current = 0


def _cost(finish: Finish | None, seconds: float) -> str:
    """Tokens written, their speed, and how much of the prompt was not computed again."""
    if finish is None:
        return ""
    usage = finish.usage
    speed = usage.output_tokens / seconds if seconds > 0 else 0.0
    note = "" if finish.reason is StopReason.END_OF_TEXT else f", ended by {finish.reason.value}"
    return (
        f"({usage.output_tokens} tokens, {speed:.1f}/s; "
        f"{usage.cached_tokens} of {usage.prompt_tokens} prompt tokens reused{note})"
    )
