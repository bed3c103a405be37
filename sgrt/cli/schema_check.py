"""`sgrt schema check FILE`: what of a JSON Schema is enforced, what is refused and why, and how long it takes."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

from sgrt.cli.user_file import read_text
from sgrt_grammars import GrammarCompiler, GrammarError, JsonSchema, Vocabulary
from sgrt_grammars.schema.check import Checker
from sgrt_grammars.schema.document import Document
from sgrt_grammars.schema.keywords import KEYWORDS, Treatment

_END = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found out about one schema."""

    draft: str
    enforced: tuple[str, ...]
    ignored: tuple[str, ...]
    faults: tuple[str, ...]
    milliseconds: float
    shortest: int

    def lines(self) -> list[str]:
        """The report as text."""
        found = [f"draft     {self.draft}", f"enforced  {', '.join(self.enforced) or 'nothing: any JSON'}"]
        if self.ignored:
            found.append(f"ignored   {', '.join(self.ignored)} (no keywords of JSON Schema, or annotations)")
        found += [f"refused   {fault}" for fault in self.faults]
        if not self.faults:
            found.append(
                f"compiles  in {self.milliseconds:.1f} ms; the shortest text has {self.shortest} bytes"
            )
        return found


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of `sgrt schema`."""
    parser = subparsers.add_parser("check", help="say what of a schema is enforced", description=__doc__)
    parser.add_argument("file", type=Path, help="a JSON Schema")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Report on the file; 1 if the schema is refused."""
    report = inspect(read_text(args.file, "file"))
    for line in report.lines():
        print(line)
    return int(bool(report.faults))


def inspect(text: str) -> Report:
    """Look at every part of the schema, then compile it as a whole."""
    faults: list[str] = []
    found: set[str] = set()
    ignored: set[str] = set()
    draft = "unknown"
    milliseconds, shortest = 0.0, 0
    try:
        document = Document(text)
        draft = (
            document.draft.name.removeprefix("DRAFT_").replace("2019", "2019-09").replace("2020", "2020-12")
        )
        checker = Checker(document, is_collecting=True)
        checker.check()
        found, ignored = checker.found, checker.unknown
        faults += [str(fault) for fault in checker.faults]
        faults += _against_metaschema(document)
        if not faults:
            milliseconds, shortest = _compiled(text)
    except GrammarError as error:
        faults.append(str(error))
    return Report(
        draft=draft,
        enforced=tuple(
            name for name in KEYWORDS if name in found and KEYWORDS[name].treatment is Treatment.ENFORCED
        ),
        ignored=tuple(sorted(ignored)),
        faults=tuple(dict.fromkeys(faults)),
        milliseconds=milliseconds,
        shortest=shortest,
    )


def _against_metaschema(document: Document) -> list[str]:
    """What the draft's metaschema has against the schema."""
    value = document.root_value
    if not isinstance(value, dict):
        return []
    validator: type[Validator] = validator_for(value, Draft202012Validator)
    errors = validator(validator.META_SCHEMA).iter_errors(value)
    return [f"{error.json_path}: {error.message[:200]} (metaschema)" for error in errors]


def _compiled(text: str) -> tuple[float, int]:
    """(milliseconds until the first mask could be asked for, bytes of the shortest text)."""
    compiler = GrammarCompiler(Vocabulary([*(bytes([byte]) for byte in range(256)), None], [_END]))
    began = time.perf_counter()
    grammar = compiler.compile(JsonSchema(text=text))
    milliseconds = (time.perf_counter() - began) * 1e3
    return milliseconds, grammar.minimum_tokens
