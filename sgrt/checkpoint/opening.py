"""Opens a model in whatever format it is stored."""

from __future__ import annotations

import os
from pathlib import Path

from sgrt.checkpoint.checkpoint import Checkpoint
from sgrt.checkpoint.folder_checkpoint import FolderCheckpoint
from sgrt.checkpoint.gguf_checkpoint import GgufCheckpoint
from sgrt.checkpoint.location import CheckpointFormat, CheckpointPath, resolve


def open_checkpoint(location: CheckpointPath | str | os.PathLike[str]) -> Checkpoint:
    """Open a model and check its headers; weights stay on the disk until they are asked for.

    Raises:
        ModelNotFound: there is no such model.
        CorruptModel: a file is truncated or contradicts itself.
        UnsupportedModel: the architecture, quantization or tokenizer is unknown; the message lists the known ones.
    """
    found = location if isinstance(location, CheckpointPath) else resolve(location)
    if found.format is CheckpointFormat.GGUF:
        return GgufCheckpoint(Path(found.path), found.name)
    return FolderCheckpoint(Path(found.path), found.name)
