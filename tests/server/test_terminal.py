"""`sgrt chat` and `sgrt bench serve`, without a terminal and without a network beyond this machine."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

import httpx
import pytest
from scripted_engine import saying, scripted_engine
from server_client import PieceBackend, listening

from sgrt.cli import bench_serve, chat, serve
from sgrt.cli.bench_serve import Load, Result, percentiles, send_load, summary
from sgrt.cli.chat import Terminal
from sgrt.cli.server_gauges import ServerGauges
from sgrt.errors import InvalidRequest
from sgrt.server.app import create_app
from sgrt.server.config import ServerConfig


class Paper:
    """Keeps what was written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def taken(self) -> str:
        """What was written since the last look."""
        text, self.text = self.text, ""
        return text


def test_a_conversation_keeps_its_history_and_reuses_its_tokens() -> None:
    paper = Paper()
    with scripted_engine(saying("hello there")) as engine:
        terminal = Terminal(engine, paper.write, system="Be brief.")
        assert terminal.take("hi, this is a somewhat longer message to be kept in the cache")
        assert "hello there" in paper.taken()
        assert terminal.take("and again")
        said = paper.taken()
    assert "hello there" in said
    reused = int(said.split(" prompt tokens reused")[0].split("; ")[-1].split(" of ")[0])
    assert reused > 40


def test_branches_go_their_own_ways() -> None:
    paper = Paper()
    backend = PieceBackend(pieces=["ok"])
    terminal = Terminal(backend, paper.write)
    terminal.take("one")
    terminal.take("/fork")
    terminal.take("two")
    assert terminal.prompt == "[1] > "
    assert b"<user>one" in bytes(backend.calls[-1].prompt)
    terminal.take("/branch 0")
    terminal.take("three")
    prompt = bytes(backend.calls[-1].prompt)
    assert b"<user>one" in prompt
    assert b"two" not in prompt
    paper.taken()
    terminal.take("/branch")
    assert "* 0: 2 turns, last: three" in paper.taken()


def test_commands_change_what_comes_next(tmp_path: Path) -> None:
    paper = Paper()
    schema = tmp_path / "shape.json"
    schema.write_text('{"const": 7}', encoding="utf-8")
    with scripted_engine(saying("free text")) as engine:
        terminal = Terminal(engine, paper.write)
        terminal.take(f"/schema {schema}")
        terminal.take("go")
        assert "free text" not in paper.taken()
        terminal.take("/schema off")
        terminal.take("/set max_tokens 2")
        terminal.take("/again")
        assert "ended by length" in paper.taken()
        for wrong in ("/set colour 3", "/set seed x", "/nope", f"/schema {tmp_path / 'none.json'}"):
            terminal.take(wrong)
            assert paper.taken().startswith("! ")
        terminal.take("/undo")
        terminal.take("/reset")
        terminal.take("/help")
        assert "/fork" in paper.taken()
        assert not terminal.take("/quit")


def test_a_message_that_cannot_be_answered_is_taken_back() -> None:
    paper = Paper()
    backend = PieceBackend(failure=InvalidRequest("no", param="x"))
    terminal = Terminal(backend, paper.write)
    terminal.take("one")
    assert "as it was before" in paper.taken()
    backend.failure = None
    terminal.take("two")
    assert b"one" not in bytes(backend.calls[-1].prompt)


def test_an_answer_that_is_asked_for_again_and_fails_leaves_question_and_answer() -> None:
    paper = Paper()
    backend = PieceBackend(pieces=["first"])
    terminal = Terminal(backend, paper.write)
    terminal.take("one")
    for failure in (InvalidRequest("no", param="x"), KeyboardInterrupt()):
        backend.failure = failure  # type: ignore[assignment]  # an interrupt is one too
        terminal.take("/again")
        assert "as it was before" in paper.taken()
    backend.failure = None
    terminal.take("two")
    assert bytes(backend.calls[-1].prompt) == b"<user>one\n<assistant>first\n<user>two\n<assistant>"
    terminal.take("/again")
    assert bytes(backend.calls[-1].prompt) == b"<user>one\n<assistant>first\n<user>two\n<assistant>"


def test_chat_talks_to_a_server(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = iter(["hi", "/quit"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    with listening(create_app(PieceBackend(pieces=["salve"]), ServerConfig())) as url:
        parser = argparse.ArgumentParser()
        chat.add_parser(parser.add_subparsers())
        assert chat.run(parser.parse_args(["chat", "--url", url])) == 0
    assert "salve" in capsys.readouterr().out


def test_a_load_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backend = PieceBackend(pieces=["a", "b", "c"], step_s=0.005)
    report = tmp_path / "report.json"
    with listening(create_app(backend, ServerConfig())) as url:
        parser = argparse.ArgumentParser()
        bench_serve.add_parser(parser.add_subparsers())
        words = [
            "serve",
            url,
            "--requests",
            "12",
            "--rate",
            "200",
            "--schema-share",
            "0.5",
            "--output",
            str(report),
        ]
        assert bench_serve.run(parser.parse_args(words)) == 0
    found = json.loads(report.read_text())
    assert (found["completed"], found["failed"], found["refused"]) == (12, 0, 0)
    assert 0.0 < found["ttft_s"]["p50"] <= found["ttft_s"]["p99"]
    assert found["left_over"] == 0
    assert "goodput" in capsys.readouterr().out
    assert any(call.constraint is not None for call in backend.calls)


def test_memory_is_told_early_and_late() -> None:
    gauges = ServerGauges([float(megabytes * 2**20) for megabytes in (10, 20, 50, 50, 52, 51, 51, 51)])
    assert gauges.memory_mib == {"early": 50.0, "late": 51.0, "max": 52.0}
    assert ServerGauges([1.0]).memory_mib == {}


def test_refusals_are_no_failures_and_cut_streams_are() -> None:
    results = [
        Result(status=200, sent_s=0.0, token_times_s=(0.1, 0.2, 0.3), total_s=0.4, num_tokens=3),
        Result(status=200, sent_s=0.1, token_times_s=(2.0,), total_s=2.0, num_tokens=1),
        Result(status=503, sent_s=0.2, error="full"),
        Result(status=200, sent_s=0.3, error="the stream ended without [DONE]"),
    ]
    report = summary(results, slo_ttft_s=1.0, slo_tpot_s=0.2)
    assert (report.completed, report.refused, report.failed) == (2, 1, 1)
    assert report.goodput_per_s == pytest.approx(1 / 2.1)
    assert percentiles([]) == {}
    assert percentiles([1.0, 2.0, 3.0, 4.0])["p50"] == 2.0


def test_arrivals_do_not_wait_for_answers() -> None:
    backend = PieceBackend(pieces=["a"], step_s=0.2)
    load = Load(
        rate=100,
        num_requests=10,
        duration_s=None,
        prompt_words=3,
        shared_words=2,
        max_tokens=2,
        schema_share=0,
        seed=1,
    )

    async def run() -> list[Result]:
        transport = httpx.ASGITransport(app=create_app(backend, ServerConfig()))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return await send_load(client, load, "stub")

    results = asyncio.run(run())
    assert max(result.sent_s for result in results) - min(result.sent_s for result in results) < 1.0
    assert all(not result.error for result in results)


def test_settings_of_serve_become_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGRT_API_KEY", "from the environment")
    parser = argparse.ArgumentParser()
    serve.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(
        ["serve", "--host", "0.0.0.0", "--tool-format", "mistral", "--threads", "1"]
    )
    config = serve.server_config(arguments)
    assert config.api_keys == ("from the environment",)
    assert config.tool_format == "mistral"
    assert serve.engine_settings(arguments).get("threads") == 1
    monkeypatch.delenv("SGRT_API_KEY")
    with pytest.raises(InvalidRequest, match="--api-key"):
        serve.server_config(arguments)
