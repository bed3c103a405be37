"""From what a user types to where a model's files lie."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sgrt.checkpoint.published_model import PUBLISHED_MODELS, PublishedModel
from sgrt.checkpoint.store import is_pulled, models_directory, pulled_path
from sgrt.errors import DownloadError, ModelNotFound

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ("*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja")
_HUB_DUPLICATES = ("consolidated*", "original/*")  # the same weights in other formats


class CheckpointFormat(Enum):
    """How a model is stored."""

    GGUF = "gguf"
    FOLDER = "folder"  # config.json, safetensors, tokenizer.json


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPath:
    """A model that is there: its name, its path and its format."""

    name: str
    path: Path
    format: CheckpointFormat


def resolve(name_or_path: str | os.PathLike[str]) -> CheckpointPath:
    """Find a model: a `.gguf` file, a Hugging Face folder, a pulled model's name, or a hub id.

    A hub id is looked for in the local hub cache and downloaded when it is not there.

    Raises:
        ModelNotFound: there is nothing under this name; the message says what was tried and what to do.
        DownloadError: a hub id could not be fetched.
    """
    text = os.fspath(name_or_path)
    path = Path(text).expanduser()
    if path.is_file():
        return _file(path)
    if (
        text in PUBLISHED_MODELS and not (path / "config.json").is_file()
    ):  # a folder may be called like a model
        return _pulled(PUBLISHED_MODELS[text])
    if path.is_dir():
        return _folder(path, path.resolve().name)
    if _HUB_ID.fullmatch(text):
        return _hub(text)
    raise ModelNotFound(_not_found(text))


def _file(path: Path) -> CheckpointPath:
    if path.suffix.lower() != ".gguf":
        raise ModelNotFound(
            f"{path}: a model file must be a .gguf file; for safetensors give the folder that holds config.json"
        )
    return CheckpointPath(name=path.stem, path=path, format=CheckpointFormat.GGUF)


def _folder(path: Path, name: str) -> CheckpointPath:
    if not (path / "config.json").is_file():
        inside = sorted(file.name for file in path.glob("*.gguf"))
        hint = f"; it holds {', '.join(inside)}: name that file" if inside else ""
        raise ModelNotFound(f"{path}: the folder has no config.json{hint}")
    return CheckpointPath(name=name, path=path, format=CheckpointFormat.FOLDER)


def _pulled(model: PublishedModel) -> CheckpointPath:
    directory = models_directory(os.environ)
    path = pulled_path(model, directory)
    if not is_pulled(model, directory):
        raise ModelNotFound(f"model {model.name!r} is not at {path}: run `sgrt pull {model.name}` first")
    return CheckpointPath(name=model.name, path=path, format=CheckpointFormat.GGUF)


def _hub(repository: str) -> CheckpointPath:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ModelNotFound(
            f"{_not_found(repository)}. Hub ids need the extra `hub`: pip install 'sgrt[hub]'"
        )
    hub = importlib.import_module("huggingface_hub")
    errors = importlib.import_module("huggingface_hub.errors")
    reason: object = "its weights are not there"
    for is_local in (True, False):
        try:
            folder = hub.snapshot_download(
                repository,
                allow_patterns=_HUB_FILES,
                ignore_patterns=_HUB_DUPLICATES,
                local_files_only=is_local,
            )
        except errors.RepositoryNotFoundError as error:
            raise ModelNotFound(f"{_not_found(repository)}, nor is there such a hub repository") from error
        except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
            reason = error
            continue
        if any(Path(folder).glob("*.safetensors")):  # another program may have fetched some small files only
            return _folder(Path(folder), repository)
    raise DownloadError(
        f"hub model {repository!r} is not in the local hub cache and could not be downloaded ({reason}); check the "
        "network, or give the path of a local .gguf file or model folder"
    )


def _not_found(text: str) -> str:
    known = ", ".join(PUBLISHED_MODELS)
    return f"no model {text!r}: it is neither a .gguf file nor a folder with config.json nor a known name ({known})"
