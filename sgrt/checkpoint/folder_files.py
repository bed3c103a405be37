"""Which files a Hugging Face folder needs, and which of them are not there."""

from __future__ import annotations

from pathlib import Path

from sgrt.checkpoint.json_file import JsonFile

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_ALWAYS = ("config.json", "tokenizer.json")


def weight_paths(folder: Path) -> list[Path]:
    """The files of weights, there or not: those that the index names, or the single one; empty with neither.

    Raises:
        CorruptModel: the index is no JSON object.
    """
    if (folder / INDEX_FILE).is_file():
        shards = JsonFile.read(folder / INDEX_FILE).part("weight_map").values.values()
        return [folder / shard for shard in sorted({Path(str(shard)).name for shard in shards})]
    return [folder / SINGLE_FILE] if (folder / SINGLE_FILE).is_file() else []


def missing_files(folder: Path) -> tuple[str, ...]:
    """Names of the files without which the folder's model cannot run: empty for a whole model.

    Raises:
        CorruptModel: the index of the weights is no JSON object.
    """
    missing = [name for name in _ALWAYS if not (folder / name).is_file()]
    weights = weight_paths(folder)
    if not weights:
        missing.append(f"{SINGLE_FILE} or {INDEX_FILE}")
    return (*missing, *(path.name for path in weights if not path.is_file()))
