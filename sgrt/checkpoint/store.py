"""The folder where pulled models lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sgrt.checkpoint.published_model import PublishedModel


def models_directory(environment: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/sgrt/models`, or `~/.cache/sgrt/models` (a relative XDG path is ignored, as XDG asks)."""
    configured = Path(environment.get("XDG_CACHE_HOME", ""))
    cache = configured if configured.is_absolute() else Path.home() / ".cache"
    return cache / "sgrt" / "models"


def pulled_path(model: PublishedModel, directory: Path) -> Path:
    """Where the model's file lies once it has been pulled."""
    return directory / model.file_name


def is_pulled(model: PublishedModel, directory: Path) -> bool:
    """Whether the model's file is there. It was checked before it got its name; here only its size is."""
    path = pulled_path(model, directory)
    return path.is_file() and path.stat().st_size == model.size
