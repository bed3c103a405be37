"""`sgrt explain` and `sgrt replay`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgrt.cli.main import main
from sgrt.cli.program_file import load_program
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.trace_file import save_trace

PROGRAM = """
import sgrt


@sgrt.function
def summarize(s: sgrt.State, document: str) -> str:
    s += document + "\\n\\nSummarize the text above in one short sentence, then stop.\\n"
    s += sgrt.gen("summary", max_tokens=8)
    return s.value("summary", str)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "summarize_example.py"
    path.write_text(PROGRAM)
    return path


def test_explain_prints_the_plan_and_advice(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{file}:summarize", "--no-model"]) == 0
    shown = capsys.readouterr().out
    assert "summarize: one run, static" in shown
    assert "variable text stands before a constant" in shown


def test_explain_takes_arguments(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(file), "--no-model", "--arguments", '{"document": "Short."}']) == 0
    assert "advice" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "nowhere.py:x"], "there is no such file"),
        (["explain", "{file}:other", "--no-model"], "has no program 'other'; it has summarize"),
        (["explain", "{file}", "--no-model", "--arguments", "[]"], "must be a JSON object"),
        (["explain", "{file}", "--no-model", "--arguments", "{"], "not JSON"),
        (["replay", "nowhere.json"], "there is no such file"),
        (["replay", "{file}"], "is not a trace"),
    ],
)
def test_mistakes_are_said_in_a_line(
    file: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.replace("{file}", str(file)) for word in words]) == 1
    assert message in capsys.readouterr().err


def test_replay_says_whether_the_program_still_does_the_same(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = load_program(f"{file}:summarize").on(ScriptedBackend(["Short."])).run("A long text.")
    trace = tmp_path / "trace.json"
    save_trace(state.trace, trace)
    assert main(["replay", str(trace), f"{file}:summarize"]) == 0
    assert "the same: 1 calls" in capsys.readouterr().out

    file.write_text(PROGRAM.replace("short sentence", "long sentence"))
    assert main(["replay", str(trace), f"{file}:summarize"]) == 1
    assert "diverges: call s#0 ('summary'): the prompt differs" in capsys.readouterr().out


def test_replay_explains_the_cache_and_exports(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = load_program(f"{file}:summarize").on(ScriptedBackend(["Short."])).run("A long text.")
    trace, chrome = tmp_path / "trace.json", tmp_path / "chrome.json"
    save_trace(state.trace, trace)
    assert main(["replay", str(trace), "--cache", "--chrome", str(chrome)]) == 0
    assert "never seen" in capsys.readouterr().out
    assert chrome.read_text().startswith('{"traceEvents"')


@pytest.mark.model
def test_explain_counts_with_the_models_tokenizer(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{file}:summarize"]) == 0
    assert "summarize: one run" in capsys.readouterr().out
