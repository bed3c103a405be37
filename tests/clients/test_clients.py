"""Client libraries against a server, each in an environment of its own (they ask for different versions).

Environments are made once under SGRT_CLIENTS, by default in the user's cache directory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from scripted_engine import saying, scripted_engine
from server_client import listening

from sgrt.server.app import create_app
from sgrt.server.config import ServerConfig

HOME = Path(os.environ.get("SGRT_CLIENTS", Path.home() / ".cache" / "sgrt-clients"))
SCRIPTS = Path(__file__).parent / "scripts"
CALL = '<tool_call>\n{"name": "look_up", "arguments": {"city":"Bern","days":3}}\n</tool_call>'

PERSON = '{"name":"Ann","age":3,"address":{"city":"Bern","kind":"home"}}'


def environment(package: str) -> Path:
    """The Python of an environment with `package` in it."""
    home = HOME / package.partition("[")[0]
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    marker = home / "ready"
    if not marker.exists():
        venv.create(home, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "-q", package]
        done = subprocess.run(install, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            pytest.skip(f"{package} cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
        marker.touch()
    return python


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str, str]]:
    """A server that wants to say a text, one that wants to call a tool, and one that wants to write JSON."""
    config = ServerConfig(model_names=("stub",))
    with (
        scripted_engine(saying("héllo wörld 🌍")) as talking,
        scripted_engine(saying(CALL)) as calling,
        scripted_engine(saying(PERSON)) as writing,
        listening(create_app(talking, config)) as text_url,
        listening(create_app(calling, config)) as call_url,
        listening(create_app(writing, config)) as json_url,
    ):
        yield text_url, call_url, json_url


@pytest.mark.slow
@pytest.mark.timeout(900)  # installs what it drives
@pytest.mark.parametrize(
    ("package", "script"),
    [
        ("openai", "openai_client.py"),
        ("instructor", "instructor_client.py"),
        ("langchain-openai", "langchain_client.py"),
        ("pydantic-ai-slim[openai]", "pydantic_ai_client.py"),
        ("openai-agents", "agents_client.py"),
        ("litellm", "litellm_client.py"),
        ("smolagents[openai]", "smolagents_client.py"),
        ("autogen-ext[openai]", "autogen_client.py"),
        ("outlines[openai]", "outlines_client.py"),
    ],
)
def test_a_client_library_gets_what_it_asks_for(
    package: str, script: str, urls: tuple[str, str, str]
) -> None:
    done = subprocess.run(
        [str(environment(package)), str(SCRIPTS / script), *urls],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": "", "NO_PROXY": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


def node_environment(name: str, packages: Sequence[str]) -> Path:
    """A folder in which Node finds `packages`."""
    home = HOME / name
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    if not (home / "node_modules").exists():
        home.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--silent", "--prefix", str(home), *packages]
        done = subprocess.run(install, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            pytest.skip(f"{name} cannot be installed here: {done.stderr.strip()[-200:]}")
    return home


@pytest.mark.slow
@pytest.mark.timeout(900)  # installs what it drives
@pytest.mark.parametrize(
    ("name", "packages", "script"),
    [
        ("npm-openai", ["openai@6"], "openai_client.mjs"),
        (
            "npm-ai",
            ["ai@6", "@ai-sdk/openai-compatible@2", "@ai-sdk/openai@3", "zod@4"],
            "ai_sdk_client.mjs",
        ),
    ],
)
def test_a_javascript_library_gets_what_it_asks_for(
    name: str, packages: list[str], script: str, urls: tuple[str, str, str]
) -> None:
    home = node_environment(name, packages)
    placed = home / script  # Node looks for packages beside the script
    placed.write_text((SCRIPTS / script).read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run(
        ["node", str(placed), *urls], capture_output=True, text=True, timeout=240, check=False, cwd=home
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.timeout(900)  # installs what it drives
def test_nothing_that_fits_the_document_is_a_server_error(urls: tuple[str, str, str]) -> None:
    tool = environment("schemathesis").parent / "schemathesis"
    options = ["--checks", "not_a_server_error", "--max-examples", "20", "--phases", "coverage,fuzzing"]
    # An answer that fills the context takes seconds on a busy machine.
    options += ["--request-timeout", "120"]
    done = subprocess.run(
        [str(tool), "run", f"{urls[0]}/openapi.json", *options],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_scripts_are_python() -> None:
    for script in SCRIPTS.glob("*.py"):
        compile(script.read_text(encoding="utf-8"), str(script), "exec")
    assert sys.version_info >= (3, 11)
