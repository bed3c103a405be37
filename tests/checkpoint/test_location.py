"""From what a user types to a model's files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sgrt.checkpoint.location import CheckpointFormat, resolve
from sgrt.checkpoint.published_model import PUBLISHED_MODELS
from sgrt.checkpoint.store import models_directory
from sgrt.errors import CorruptModel, ModelNotFound

LOOK_UP = """
import sys
from sgrt.checkpoint.location import resolve
from sgrt.errors import ModelError
try:
    print("found", resolve(sys.argv[1]).path)
except ModelError as error:
    print(type(error).__name__, error)
"""


def looked_up_offline(name: str, hub_home: Path) -> str:
    environment = os.environ | {
        "HF_HOME": str(hub_home),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP, name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_a_gguf_file_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "My-Model.Q4_0.gguf"
    path.touch()
    found = resolve(path)
    assert (found.name, found.path, found.format) == ("My-Model.Q4_0", path, CheckpointFormat.GGUF)
    assert resolve(str(path)) == found


def test_a_folder_with_a_configuration_is_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    found = resolve(folder)
    assert (found.name, found.path, found.format) == ("my-model", folder, CheckpointFormat.FOLDER)


def test_a_home_directory_may_be_abbreviated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.gguf").touch()
    assert resolve("~/a.gguf").path == tmp_path / "a.gguf"


@pytest.mark.parametrize(
    "text",
    ["./missing.gguf", "models/missing.gguf", "../up", "./here/model", "/nowhere/model", "~/model", "x.GGUF"],
)
def test_what_can_only_be_a_path_is_no_hub_id(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound, match=r"no model .*: there is no file or folder"):
        resolve(text)


def test_a_name_that_the_hub_does_not_allow_is_not_found(tmp_path: Path) -> None:
    assert looked_up_offline("some..body/model--x", tmp_path).startswith("ModelNotFound no model")


@pytest.mark.parametrize("wrong", [None, 5, ["smollm2"]])
def test_what_is_no_name_at_all_is_not_found(wrong: object) -> None:
    with pytest.raises(ModelNotFound, match="is no model; give a name"):
        resolve(wrong)  # type: ignore[arg-type]  # what users pass


def test_a_pulled_model_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ModelNotFound, match=r"'smollm2' is not at .*: run `sgrt pull smollm2` first"):
        resolve("smollm2")
    model = PUBLISHED_MODELS["smollm2"]
    path = tmp_path / "sgrt" / "models" / model.file_name
    path.parent.mkdir(parents=True)
    path.touch()
    os.truncate(path, model.size - 1)
    with pytest.raises(CorruptModel, match=r"is damaged: it has 98,362,431 bytes, not .*`sgrt pull smollm2`"):
        resolve("smollm2")
    os.truncate(path, model.size)
    found = resolve("smollm2")
    assert (found.name, found.path, found.format) == ("smollm2", path, CheckpointFormat.GGUF)


def test_a_folder_that_is_only_called_like_a_model_hides_it_if_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").mkdir()
    with pytest.raises(ModelNotFound, match="sgrt pull smollm2"):
        resolve("smollm2")
    (tmp_path / "smollm2" / "config.json").write_text("{}")
    assert resolve("smollm2").format is CheckpointFormat.FOLDER


def test_models_lie_under_the_cache_directory_of_the_user() -> None:
    assert models_directory({"XDG_CACHE_HOME": "/elsewhere"}) == Path("/elsewhere/sgrt/models")
    assert models_directory({}) == Path.home() / ".cache/sgrt/models"
    assert models_directory({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache/sgrt/models"


def test_what_is_not_found_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"no model 'nothing'.*known name \(smollm2\)"):
        resolve("nothing")
    with pytest.raises(ModelNotFound, match="no model"):
        resolve(tmp_path / "absent" / "model.gguf")
    (tmp_path / "weights.bin").touch()
    with pytest.raises(ModelNotFound, match=r"must be a .gguf file"):
        resolve(tmp_path / "weights.bin")
    (tmp_path / "inside.gguf").touch()
    with pytest.raises(ModelNotFound, match=r"no config.json; it holds inside.gguf: name that file"):
        resolve(tmp_path)


def hub_snapshot(home: Path, *files: str) -> Path:
    """A snapshot of someone/something in the hub's cache, of two shards of weights."""
    repository = home / "hub" / "models--someone--something"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    for name in files:
        (snapshot / name).write_text("{}")
    return snapshot


def test_a_hub_model_in_the_local_cache_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    snapshot = hub_snapshot(tmp_path, "config.json", "tokenizer.json", "model.safetensors")
    assert looked_up_offline("someone/something", tmp_path) == f"found {snapshot}\n"


WHOLE = {"config.json", "tokenizer.json", "model.safetensors.index.json", "a.safetensors", "b.safetensors"}


@pytest.mark.parametrize("missing", sorted(WHOLE))
def test_a_hub_download_that_was_interrupted_is_never_used_as_it_is(tmp_path: Path, missing: str) -> None:
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    snapshot = hub_snapshot(tmp_path, *(WHOLE - {missing}))
    index = snapshot / "model.safetensors.index.json"
    if index.is_file():
        index.write_text('{"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}')
    said = looked_up_offline("someone/something", tmp_path)
    assert said.startswith(f"DownloadError hub model 'someone/something' is not whole: {snapshot} lacks ")
    assert missing in said
    assert "run `sgrt pull someone/something` with the network reachable" in said
    (snapshot / missing).write_text("{}")
    index.write_text('{"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}')
    assert looked_up_offline("someone/something", tmp_path) == f"found {snapshot}\n"


def test_a_snapshot_that_lacks_files_goes_through_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    snapshot = hub_snapshot(tmp_path, "config.json", "model.safetensors")

    def download(repository: str, *, local_files_only: bool, **patterns: object) -> str:
        if not local_files_only:
            (snapshot / "tokenizer.json").write_text("{}")
        return str(snapshot)

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert resolve("someone/something").path == snapshot
    assert (snapshot / "tokenizer.json").is_file()


def test_a_hub_model_that_cannot_be_fetched_offline_says_so(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    said = looked_up_offline("someone/absent", tmp_path)
    assert said.startswith("DownloadError hub model 'someone/absent' is not in the local hub cache")
    assert "check the network" in said
