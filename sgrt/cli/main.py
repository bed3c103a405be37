"""`sgrt COMMAND ...`: finds the command's module and hands over.

Only the module of the command asked for is imported, so that `sgrt pull` and `sgrt --help` load no torch.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import ModuleType

from sgrt import __version__
from sgrt.errors import SgrtError
from sgrt_grammars.errors import GrammarError


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: the words that name it, the module that has it, one line of help."""

    words: tuple[str, ...]
    module: str
    help: str


COMMANDS = (
    Command(words=("pull",), module="sgrt.cli.pull", help="fetch a model into the cache"),
    Command(words=("run",), module="sgrt.cli.run", help="complete one prompt"),
    Command(words=("chat",), module="sgrt.cli.chat", help="talk to a model in the terminal"),
    Command(words=("serve",), module="sgrt.cli.serve", help="serve the OpenAI-compatible API"),
    Command(words=("explain",), module="sgrt.cli.explain", help="print the plan of an agent program"),
    Command(words=("replay",), module="sgrt.cli.replay", help="run a program against a recorded trace"),
    Command(
        words=("bench", "serve"), module="sgrt.cli.bench_serve", help="load a server and report latencies"
    ),
    Command(words=("doctor",), module="sgrt.cli.doctor", help="say what runs here and how fast"),
    Command(words=("grammar", "check"), module="sgrt.cli.grammar_check", help="run a file of grammar cases"),
    Command(
        words=("schema", "check"), module="sgrt.cli.schema_check", help="say what of a schema is enforced"
    ),
)


def _usage() -> str:
    width = max(len(" ".join(command.words)) for command in COMMANDS)
    lines = [f"  {' '.join(command.words):<{width}}  {command.help}" for command in COMMANDS]
    return "\n".join(
        [
            "usage: sgrt COMMAND ...",
            "",
            *lines,
            "",
            "`sgrt COMMAND --help` says more; `sgrt --version` says which this is.",
        ]
    )


def _find(arguments: Sequence[str]) -> Command | None:
    return next((c for c in COMMANDS if tuple(arguments[: len(c.words)]) == c.words), None)


def _meant(words: Sequence[str]) -> str:
    """The commands that begin with the word given, or are spelled like it."""
    names = {" ".join(command.words): command.words[0] for command in COMMANDS}
    alike = [name for name, first in names.items() if first == words[0]] or get_close_matches(
        words[0], list(names), n=1
    )
    return f"; did you mean {' or '.join(f'`sgrt {name}`' for name in alike)}?" if alike else ""


def _parse(module: ModuleType, command: Command, arguments: Sequence[str]) -> argparse.Namespace:
    """What was given, as the command's own parser reads it: its errors show its own usage."""
    subparsers = argparse.ArgumentParser(prog=" ".join(("sgrt", *command.words[:-1]))).add_subparsers()
    module.add_parser(subparsers)
    parser: argparse.ArgumentParser = subparsers.choices[command.words[-1]]
    return parser.parse_args(arguments[len(command.words) :])


def _import(name: str, *, is_whole_process: bool) -> ModuleType:
    """The command's module. What a process loads at its start stays: looking for garbage in it would only cost time."""
    if not is_whole_process:
        return importlib.import_module(name)
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 1 for a failure it reports, 2 for wrong usage."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"sgrt {__version__}")
        return 0
    command = _find(words)
    if command is None:
        print(f"sgrt: no command {' '.join(words[:2])!r}{_meant(words)}\n\n{_usage()}", file=sys.stderr)
        return 2
    module = _import(command.module, is_whole_process=arguments is None)
    try:
        return int(module.run(_parse(module, command, words)))
    except (SgrtError, GrammarError) as error:
        print(f"sgrt {' '.join(command.words)}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
