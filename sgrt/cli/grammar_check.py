"""`sgrt grammar check CASES.json`: compile each case and try its texts, byte by byte and token by token.

A file is a JSON list. A case has an `id`, `expect_compile` (`ok`, `error` or `ok_or_error`) and one of
- `schema` with `valid` and `invalid` texts,
- `regex` with `match` and `no_match` texts (`dialect` names another dialect than Python's),
- `grammar` with `dialect`, `accept` and `reject` texts; `grammar_build` gives a text as [part, count] pairs.
One JSON line is printed per case.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from sgrt.cli.user_file import read_json, read_text
from sgrt.errors import InvalidRequest
from sgrt_grammars import (
    Constraint,
    ContextFree,
    Grammar,
    GrammarCompiler,
    GrammarDialect,
    GrammarError,
    JsonSchema,
    PropertyOrder,
    Regex,
    RegexDialect,
    Vocabulary,
    Whitespace,
)

_END = 256
_ECMA_NAMES = frozenset({"ecma", "ecma-262", "ecmascript", "javascript"})
_EXPECTATIONS = ("ok", "error", "ok_or_error")
_MAX_SHOWN = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """One vocabulary, and how a text is split into its tokens."""

    name: str
    compiler: GrammarCompiler
    encode: Callable[[str], list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case: a constraint, the texts it must and must not allow, and whether it may be refused."""

    id: str
    constraint: Constraint
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]
    expected: str


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What became of one case."""

    id: str
    compile: str = "ok"
    passed: bool = True
    pointer: str = ""
    message: str = ""
    wrong: list[dict[str, str]] = field(default_factory=list)
    milliseconds: float = 0.0

    def as_line(self) -> str:
        """The verdict as one line of JSON."""
        found: dict[str, object] = {"id": self.id, "compile": self.compile}
        if self.compile == "error":
            found |= {"pointer": self.pointer, "message": self.message}
        found |= {"pass": self.passed, "ms": round(self.milliseconds, 1)}
        if self.wrong:
            found["wrong"] = self.wrong
        return json.dumps(found, ensure_ascii=False)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of `sgrt grammar`."""
    parser = subparsers.add_parser("check", help="run a file of grammar cases", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("cases", type=Path, nargs="+", help="JSON files of cases")
    parser.add_argument(
        "--tokenizer",
        type=Path,
        action="append",
        default=[],
        help="a tokenizer.json to try as well (repeatable)",
    )
    parser.add_argument("--whitespace", choices=[mode.value for mode in Whitespace], default="flexible")
    parser.add_argument("--order", choices=[order.value for order in PropertyOrder], default="any")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the files; 1 if any case fails."""
    whitespace, order = Whitespace(args.whitespace), PropertyOrder(args.order)
    judges = [_byte_judge(), *(_tokenizer_judge(path) for path in args.tokenizer)]
    has_failed = False
    for path in args.cases:
        for case in _cases(path, whitespace, order):
            verdict = check(case, judges)
            has_failed |= not verdict.passed
            print(verdict.as_line(), flush=True)
    return int(has_failed)


def _byte_judge() -> Judge:
    """A vocabulary in which every byte is a token."""
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), None], [_END])
    return Judge(name="bytes", compiler=GrammarCompiler(vocabulary), encode=lambda text: [*_bytes(text)])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _tokenizer_judge(path: Path) -> Judge:
    text = read_text(path, "--tokenizer")
    try:
        tokenizer: Any = Tokenizer.from_str(text)
        tokenizer.encode_special_tokens = True  # texts are users' texts, as they are to an engine
        vocabulary = Vocabulary.from_tokenizer_json(text)
    except Exception as error:  # the tokenizers package raises nothing narrower
        raise InvalidRequest(
            f"--tokenizer: {path} is not a tokenizer.json: {error}", param="tokenizer"
        ) from error
    return Judge(
        name=path.stem,
        compiler=GrammarCompiler(vocabulary),
        encode=lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids),
    )


def _cases(path: Path, whitespace: Whitespace, order: PropertyOrder) -> Iterator[Case]:
    """The cases of a file.

    Raises:
        InvalidRequest: the file cannot be read, is not a list of cases, or a case lacks a field.
    """
    entries = read_json(path, "cases")
    if not isinstance(entries, list) or not entries:
        found = "an empty list" if entries == [] else f"a JSON {type(entries).__name__}"
        raise InvalidRequest(f"cases: {path} must hold a JSON list of cases, not {found}", param="cases")
    for number, entry in enumerate(entries):
        try:
            yield _case(entry, whitespace, order)
        except GrammarError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            fault = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise InvalidRequest(
                f"cases: {path}: case {number} is malformed: {fault}", param="cases"
            ) from error


def _case(entry: dict[str, Any], whitespace: Whitespace, order: PropertyOrder) -> Case:
    if not isinstance(entry, dict):
        raise TypeError(f"it must be an object, not {type(entry).__name__}")
    if "schema" in entry or "schema_text" in entry:
        text = entry["schema_text"] if "schema_text" in entry else json.dumps(entry["schema"])
        constraint: Constraint = JsonSchema(text=text, whitespace=whitespace, order=order)
        names = ("valid", "invalid")
    elif "regex" in entry:
        is_ecma = str(entry.get("dialect", "")).lower() in _ECMA_NAMES
        dialect = RegexDialect.ECMA if is_ecma else RegexDialect.PYTHON
        constraint, names = Regex(pattern=entry["regex"], dialect=dialect), ("match", "no_match")
    elif "grammar" in entry or "grammar_build" in entry:
        constraint = ContextFree(text=_grammar_text(entry), dialect=GrammarDialect(entry["dialect"]))
        names = ("accept", "reject")
    else:
        raise ValueError("it has none of schema, schema_text, regex, grammar, grammar_build")
    expected = entry.get("expect_compile", "ok")
    if expected not in _EXPECTATIONS:
        raise ValueError(f"expect_compile must be one of {', '.join(_EXPECTATIONS)}, not {expected!r}")
    return Case(
        id=entry["id"],
        constraint=constraint,
        accepted=_texts(entry, names[0]),
        rejected=_texts(entry, names[1]),
        expected=expected,
    )


def _texts(entry: dict[str, Any], name: str) -> tuple[str, ...]:
    texts = entry.get(name, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} must be a list of texts")
    return tuple(texts)


def _grammar_text(entry: dict[str, Any]) -> str:
    if entry.get("grammar") is not None:
        return str(entry["grammar"])
    parts: list[str] = []
    for part, count in entry["grammar_build"]:
        parts.append(_chain(count) if part == "@chain" else part * count)
    return "".join(parts)


def _chain(length: int) -> str:
    """Rules r0 to r(length - 1), each deriving the next; the last is "z"."""
    links = [f"r{index} ::= r{index + 1}" for index in range(length - 1)]
    return "\n".join(["root ::= r0", *links, f'r{length - 1} ::= "z"', ""])


def check(case: Case, judges: list[Judge]) -> Verdict:
    """Compile the case for every judge and try its texts."""
    verdict = Verdict(id=case.id)
    for judge in judges:
        began = time.perf_counter()
        try:
            grammar = judge.compiler.compile(case.constraint)
        except GrammarError as error:
            verdict.compile, verdict.pointer = "error", str(getattr(error, "pointer", ""))
            verdict.message = f"{type(error).__name__}: {error}"
            verdict.passed = case.expected != "ok"
            return verdict
        finally:
            verdict.milliseconds = max(verdict.milliseconds, (time.perf_counter() - began) * 1e3)
        _try_texts(case, judge, grammar, verdict)
    verdict.passed = not verdict.wrong and case.expected != "error"
    return verdict


def _try_texts(case: Case, judge: Judge, grammar: Grammar, verdict: Verdict) -> None:
    for texts, is_expected in ((case.accepted, True), (case.rejected, False)):
        for text in texts:
            if is_accepted(grammar, judge.encode(text)) is not is_expected:
                fault = "refused" if is_expected else "accepted"
                verdict.wrong.append({"text": text[:_MAX_SHOWN], "fault": fault, "tokens": judge.name})


def is_accepted(grammar: Grammar, tokens: list[int]) -> bool:
    """Whether the matcher takes all tokens and may end after them."""
    matcher = grammar.matcher()
    return all(matcher.advance(token) for token in tokens) and matcher.is_accepting
