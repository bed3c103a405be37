"""`sgrt`: usage, versions, models, and files that are not what they should be."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from tiny_models import TINY_MODELS, write_folder

import sgrt
from sgrt.cli.main import COMMANDS, main

PROGRAM = (
    "import sgrt\n\n@sgrt.function\ndef say(s: sgrt.State) -> None:\n    s += sgrt.gen('x', max_tokens=1)\n"
)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("bench", "sgrt bench serve"), ("grammar", "sgrt grammar check"), ("sreve", "sgrt serve")],
)
def test_a_command_that_is_not_there_is_told_with_the_one_that_was_meant(
    given: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([given]) == 2
    assert f"no command {given!r}; did you mean `{meant}`?" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told_before_a_model_is_looked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "nowhere", "--port", str(port)]) == 1
    assert (
        f"sgrt serve: port: cannot listen on 127.0.0.1:{port}: Address already in use"
        in capsys.readouterr().err
    )


def test_an_address_that_is_not_here_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["serve", "nowhere", "--host", "192.0.2.1", "--api-key", "secret-key-of-16", "--port", "0"]) == 1
    )
    assert "sgrt serve: port: cannot listen on 192.0.2.1:0" in capsys.readouterr().err


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"sgrt {sgrt.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.words))
def test_wrong_usage_shows_the_usage_of_the_command_itself(
    command: object, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command.words  # type: ignore[attr-defined]  # a Command
    with pytest.raises(SystemExit) as ended:
        main([*words, "a", "b", "--no-such-option"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: sgrt {' '.join(words)} [-h]")
    assert f"sgrt {' '.join(words)}: error: " in said


@pytest.mark.parametrize(
    "words",
    [
        ["run", "hi", "--model", "nowhere"],
        ["chat", "nowhere"],
        ["chat", "--model", "nowhere"],
        ["serve", "nowhere", "--port", "0"],
        ["serve", "--model", "nowhere", "--port", "0"],
        ["pull", "nowhere"],
        ["pull", "--model", "nowhere"],
    ],
)
def test_every_command_takes_the_model_in_both_forms(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    assert "no model 'nowhere'" in capsys.readouterr().err


def test_explain_takes_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "say.py").write_text(PROGRAM)
    assert main(["explain", str(tmp_path / "say.py"), "--model", "nowhere"]) == 1
    assert "no model 'nowhere'" in capsys.readouterr().err


def test_two_models_are_one_too_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "one", "--model", "two"]) == 1
    assert "model: named twice, 'one' and --model 'two'" in capsys.readouterr().err


READERS = [
    ["grammar", "check", "{file}"],
    ["grammar", "check", "{cases}", "--tokenizer", "{file}"],
    ["schema", "check", "{file}"],
    ["replay", "{file}"],
    ["explain", "{file}", "--no-model"],
    ["run", "hi", "--schema", "{file}"],
]
CONTENTS = {"absent": None, "a folder": b"", "not UTF-8": b"\xff\xfe{", "cut": b"{", "deep": b"[" * 200_000}


@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize("kind", CONTENTS)
def test_a_file_that_cannot_be_read_is_told_in_one_line(
    words: list[str],
    kind: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if words[0] == "run" and kind in ("cut", "deep"):
        pytest.skip("the engine compiles the schema: its own tests")
    file, cases = tmp_path / "file.json", tmp_path / "cases.json"
    cases.write_text('[{"id": "x", "regex": "a", "match": ["a"], "no_match": []}]')
    content = CONTENTS[kind]
    if kind == "a folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    assert main([word.format(file=file, cases=cases) for word in words]) == 1
    shown = capsys.readouterr()
    said = (shown.err or shown.out).splitlines()
    assert len(said) == 1 or words[0] == "schema"
    assert "file.json" in said[0] or words[0] == "schema"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must hold a JSON list of cases, not an empty list"),
        ("{}", "must hold a JSON list of cases, not a JSON dict"),
        ("[1]", "case 0 is malformed: it must be an object, not int"),
        ('[{"id": "x"}]', "case 0 is malformed: it has none of schema"),
        ('[{"regex": "a"}]', "case 0 is malformed: it has no 'id'"),
        ('[{"id": "x", "grammar": "a"}]', "case 0 is malformed: it has no 'dialect'"),
        ('[{"id": "x", "grammar": "a", "dialect": "bnf"}]', "case 0 is malformed: 'bnf' is not"),
        ('[{"id": "x", "regex": "a", "match": "a"}]', "match must be a list of texts"),
        ('[{"id": "x", "regex": "a", "expect_compile": "yes"}]', "expect_compile must be one of ok, error"),
    ],
)
def test_malformed_cases_are_told(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cases.json").write_text(text)
    assert main(["grammar", "check", str(tmp_path / "cases.json")]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "program.py:1: SyntaxError"),
        ("import sgrt\nimport no_such_module\n", "program.py:2: ModuleNotFoundError"),
        ("\n\n1 / 0\n", "program.py:3: ZeroDivisionError: division by zero"),
    ],
)
def test_a_program_that_does_not_load_is_told_with_its_place(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "program.py").write_text(text)
    assert main(["explain", str(tmp_path / "program.py"), "--no-model"]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["127.0.0.1:8000"], "url: must begin with http://"),
        (["http://127.0.0.1:9", "--rate", "0"], "--rate: must be positive"),
        (["http://127.0.0.1:9", "--requests", "0"], "--requests: must be at least 1"),
        (["http://127.0.0.1:9", "--output", "nowhere/x.json"], "there is no such folder"),
        (["http://127.0.0.1:9"], "no list of models"),
    ],
)
def test_a_load_that_cannot_be_sent_is_told(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "serve", *words]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


def test_a_model_without_a_chat_template_is_said_to_go_on_with_plain_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(TINY_MODELS["llama"], tmp_path / "tiny")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    words = [
        "run",
        "x",
        "--model",
        str(folder),
        "--max-tokens",
        "1",
        "--compute",
        "float32",
        "--context-tokens",
        "64",
    ]
    assert main(words) == 0
    assert capsys.readouterr().err.count("has no chat template: the prompt is continued as plain text") == 1
    assert main([*words, "--raw"]) == 0
    assert "chat template" not in capsys.readouterr().err
