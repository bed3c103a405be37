"""The engines under test, each in a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cpu_parts.prompts import SCHEMA, SCHEMA_TEXT, Tokens

_FOLDER = Path(__file__).parent


class Piped:
    """A worker that answers one line of JSON with another."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the worker and wait until it is ready."""
        self.name = name
        started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(environment),
            process_group=0,  # some end their whole process group; a session of its own would lose its priority
        )
        assert self._ask(None) == "ready"
        self.ready_s = time.perf_counter() - started

    def generate(
        self, prompts: Sequence[Tokens], max_tokens: int, *, constrained: bool = False
    ) -> list[Tokens]:
        """See `Peer`."""
        schema = SCHEMA_TEXT if constrained else None
        answer = self._ask({"prompts": prompts, "max_tokens": max_tokens, "schema": schema})
        assert isinstance(answer, list)
        return answer

    def flush(self) -> None:
        """See `Peer`."""
        self._ask("flush")

    @property
    def process_id(self) -> int:
        """Of the worker."""
        return self._process.pid

    def close(self) -> None:
        """End the worker."""
        self._process.communicate()

    def _ask(self, request: object | None) -> object:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if request is not None:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended; its messages are above")
        return json.loads(line)


class LlamaServer:
    """llama.cpp's own server over loopback HTTP."""

    def __init__(self, program: Path, model: Path, *, threads: int, slots: int, port: int) -> None:
        """Start the server and wait until it is healthy."""
        self.name = f"llama.cpp {model.name.split('.')[-2]} x{slots}"
        self._port, self._slots = port, slots
        started = time.perf_counter()
        options = f"-t {threads} -tb {threads} -np {slots} -c {2048 * slots} --offline -lv 0"
        command = [
            str(program),
            "-m",
            str(model),
            *options.split(),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self._is_healthy():
            if self._process.poll() is not None:
                raise SystemExit(f"{program} ended with status {self._process.returncode}")
            time.sleep(0.02)
        self.ready_s = time.perf_counter() - started

    def generate(
        self, prompts: Sequence[Tokens], max_tokens: int, *, constrained: bool = False
    ) -> list[Tokens]:
        """See `Peer`."""
        with ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(lambda prompt: self._one(prompt, max_tokens, constrained), prompts))

    def flush(self) -> None:
        """See `Peer`."""
        for slot in range(self._slots):
            self._request("POST", f"/slots/{slot}?action=erase", None)

    @property
    def process_id(self) -> int:
        """Of the server."""
        return self._process.pid

    def close(self) -> None:
        """Stop the server."""
        self._process.terminate()
        self._process.wait()

    def _one(self, prompt: Tokens, max_tokens: int, constrained: bool) -> Tokens:
        body: dict[str, object] = {
            "prompt": prompt,
            "n_predict": max_tokens,
            "temperature": 0,
            "top_k": 1,
            "cache_prompt": True,
            "return_tokens": True,
            "ignore_eos": not constrained,
        }
        if constrained:
            body["json_schema"] = SCHEMA
        answer = json.loads(self._request("POST", "/completion", body))
        tokens: Tokens = answer.get("tokens", [])
        return tokens

    def _request(self, method: str, path: str, body: object | None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=900)
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse().read()

    def _is_healthy(self) -> bool:
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        return False


def sgrt_peer(model: str, threads: int) -> Piped:
    """Sgrt in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(_FOLDER / "sgrt_worker.py"), model, "--threads", str(threads)]
    return Piped("sgrt", command, environment)


def vllm_peer(python: Path, model: Path, threads: int, preload: str) -> Piped:
    """VLLM in its own Python."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if preload:
        environment["LD_PRELOAD"] = preload
    command = [str(python), str(_FOLDER / "vllm_worker.py"), str(model), "--threads", str(threads)]
    return Piped("vLLM bf16", command, environment)


def peak_rss_mb(process_id: int) -> int:
    """High-water marks of a process and all its descendants together."""
    return round(sum(_peak_kb(member) for member in _family(process_id)) / 1024)


def _family(process_id: int) -> Iterator[int]:
    yield process_id
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process_id}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _peak_kb(process_id: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1])
    return 0
