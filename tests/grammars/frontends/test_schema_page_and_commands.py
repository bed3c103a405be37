"""`docs/schema.md` follows the code; `sgrt grammar check` and `sgrt schema check` say what they find."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from sgrt.cli import grammar_check, schema_check
from sgrt_grammars.schema.keywords import KEYWORDS
from sgrt_grammars.schema.table import render

ROOT = Path(__file__).parents[3]


def test_the_page_is_what_the_code_renders() -> None:
    page = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8")
    assert page == render(), "run: python -m sgrt_grammars.schema.table > docs/schema.md"


def test_the_page_names_every_keyword() -> None:
    assert all(f"| `{name}` |" in render() for name in KEYWORDS)


CASES: list[dict[str, Any]] = [
    {"id": "schema", "schema": {"type": "integer", "minimum": 3}, "valid": ["3"], "invalid": ["2"], "expect_compile": "ok"},
    {"id": "regex", "regex": "a+", "match": ["aa"], "no_match": ["b"], "expect_compile": "ok"},
    {"id": "grammar", "dialect": "gbnf", "grammar": 'root ::= "x"', "accept": ["x"], "reject": [""], "expect_compile": "ok"},
    {"id": "built", "dialect": "gbnf", "grammar_build": [["root ::= ", 1], ["(", 3], ['"a"', 1], [")", 3]], "accept": ["a"],
     "reject": [], "expect_compile": "ok"},
    {"id": "malformed", "schema": {"required": True}, "valid": [], "invalid": [], "expect_compile": "error"},
    {"id": "refused", "regex": r"(a)\1", "match": ["aa"], "no_match": [], "expect_compile": "ok_or_error"},
]  # fmt: skip


def _run_cases(
    path: Path, cases: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[dict[str, Any]]]:
    path.write_text(json.dumps(cases), encoding="utf-8")
    parser = argparse.ArgumentParser()
    grammar_check.add_parser(parser.add_subparsers())
    status = grammar_check.run(parser.parse_args(["check", str(path)]))
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_cases_that_hold_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = _run_cases(tmp_path / "cases.json", CASES, capsys)
    assert status == 0
    assert [(line["id"], line["compile"], line["pass"]) for line in lines] == [
        ("schema", "ok", True),
        ("regex", "ok", True),
        ("grammar", "ok", True),
        ("built", "ok", True),
        ("malformed", "error", True),
        ("refused", "error", True),
    ]
    assert lines[4]["pointer"] == "/required"


def test_cases_that_do_not_hold_fail_and_name_their_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [{**CASES[0], "valid": ["2"], "invalid": ["3"]}, {**CASES[4], "expect_compile": "ok"}]
    status, lines = _run_cases(tmp_path / "cases.json", wrong, capsys)
    assert status == 1
    assert [line["pass"] for line in lines] == [False, False]
    assert [(one["text"], one["fault"]) for one in lines[0]["wrong"]] == [("2", "refused"), ("3", "accepted")]


def test_a_schema_is_reported_on() -> None:
    report = schema_check.inspect('{"type": "string", "maxLength": 3, "x-mark": 1, "title": "t"}')
    assert (report.draft, report.enforced, report.ignored) == ("2020-12", ("type", "maxLength"), ("x-mark",))
    assert report.faults == ()
    assert report.shortest == 2


def test_all_faults_of_a_schema_are_reported_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "schema.json"
    path.write_text(
        '{"properties": {"a": {"format": "idn-hostname"}, "b": {"minimum": "x"}}}', encoding="utf-8"
    )
    parser = argparse.ArgumentParser()
    schema_check.add_parser(parser.add_subparsers())
    assert schema_check.run(parser.parse_args(["check", str(path)])) == 1
    printed = capsys.readouterr().out
    assert "/properties/a/format" in printed
    assert "/properties/b/minimum" in printed
