"""From what a user types to where a model's files lie."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sgrt.checkpoint.folder_files import missing_files
from sgrt.checkpoint.published_model import PUBLISHED_MODELS, PublishedModel
from sgrt.checkpoint.store import is_pulled, models_directory, pulled_path
from sgrt.errors import CorruptModel, DownloadError, ModelNotFound

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
        CorruptModel: a pulled model's file has not the size that it must have.
        DownloadError: a hub id could not be fetched.
    """
    if not isinstance(name_or_path, str | os.PathLike):
        raise ModelNotFound(f"{name_or_path!r} is no model; give a name such as 'smollm2', or a path")
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
    if _is_path(text):
        raise ModelNotFound(f"no model {text!r}: there is no file or folder {path}")
    if _HUB_ID.fullmatch(text):
        return _hub(text)
    raise ModelNotFound(_not_found(text))


def _is_path(text: str) -> bool:
    """Whether a text can only be meant as a path: `models/x.gguf` looks like a hub id, but none ends so."""
    return text.lower().endswith(".gguf") or text.startswith(("./", "../", "/", "~")) or text in (".", "..")


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
    if path.is_file() and not is_pulled(model, directory):
        raise CorruptModel(
            f"{path}: the file of model {model.name!r} is damaged: it has {path.stat().st_size:,} bytes, "
            f"not {model.size:,}; run `sgrt pull {model.name}` to fetch it again"
        )
    if not path.is_file():
        raise ModelNotFound(f"model {model.name!r} is not at {path}: run `sgrt pull {model.name}` first")
    return CheckpointPath(name=model.name, path=path, format=CheckpointFormat.GGUF)


def _hub(repository: str) -> CheckpointPath:
    """The model in the hub's own cache. What is whole there is used as it is; anything else goes through the download,
    which fetches what is missing, also of one that was interrupted.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ModelNotFound(
            f"{_not_found(repository)}. Hub ids need the extra `hub`: pip install 'sgrt[hub]'"
        )
    hub = importlib.import_module("huggingface_hub")
    errors = importlib.import_module("huggingface_hub.errors")
    reason: object = ""
    incomplete = ""
    for is_local in (True, False):
        try:
            folder = hub.snapshot_download(
                repository,
                allow_patterns=_HUB_FILES,
                ignore_patterns=_HUB_DUPLICATES,
                local_files_only=is_local,
            )
        except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
            raise ModelNotFound(f"{_not_found(repository)}, nor is there such a hub repository") from error
        except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
            reason = error
            if (partial := getattr(error, "snapshot_path", None)) is not None:
                incomplete = _lack(Path(partial))
            continue
        if not missing_files(Path(folder)):  # another program may have fetched some small files only
            return _folder(Path(folder), repository)
        incomplete = _lack(Path(folder))
    raise DownloadError(_not_whole(repository, incomplete, reason))


def _lack(folder: Path) -> str:
    missing = missing_files(folder) or ("files that the repository lists",)
    return f"{folder} lacks {', '.join(missing)}"


def _not_whole(repository: str, incomplete: str, reason: object) -> str:
    """Why a hub model cannot be used: nothing of it is there, or a part of it."""
    because = f" ({reason})" if reason else ""
    if not incomplete:
        return (
            f"hub model {repository!r} is not in the local hub cache and could not be downloaded{because}; check the "
            "network, or give the path of a local .gguf file or model folder"
        )
    return (
        f"hub model {repository!r} is not whole: {incomplete}, and the download did not bring it{because}; run "
        f"`sgrt pull {repository}` with the network reachable, which fetches the missing files alone. If the repository "
        "itself does not hold them, it is of a kind that sgrt does not run"
    )


def _not_found(text: str) -> str:
    known = ", ".join(PUBLISHED_MODELS)
    return f"no model {text!r}: it is neither a .gguf file nor a folder with config.json nor a known name ({known})"
