"""A safetensors file: checked before use, read tensor by tensor.

Layout: header length u64 (little-endian) | header, JSON: {name: {dtype, shape, data_offsets}} | data
"""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import safe_open
from torch import Tensor

from sgrt.errors import CorruptModel, UnsupportedModel

_KNOWN_TYPES = ("F32", "F16", "BF16")
_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit


class SafetensorsFile:
    """One file of weights."""

    __slots__ = ("_path", "names")

    def __init__(self, path: Path) -> None:
        """Check the header of `path`.

        Raises:
            CorruptModel: the file is missing, truncated or not safetensors.
            UnsupportedModel: a tensor's type is unknown.
        """
        if not path.is_file():
            raise CorruptModel(f"{path}: the model's index names this file, but it is not there")
        self._path = path
        self.names = frozenset(_checked_header(path))

    def tensor(self, name: str) -> Tensor:
        """The tensor under the file's name for it, in the file's type."""
        with safe_open(self._path, framework="pt") as file:
            tensor = file.get_tensor(name)
        assert isinstance(tensor, Tensor)
        return tensor


def _checked_header(path: Path) -> list[str]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LONGEST_HEADER):
            raise CorruptModel(
                f"{path}: truncated or no safetensors file: it has {size:,} bytes, its header needs {8 + length:,}"
            )
        try:
            header = json.loads(file.read(length))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise CorruptModel(f"{path}: the safetensors header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise CorruptModel(f"{path}: the safetensors header is not an object")
    header.pop("__metadata__", None)
    for name, entry in header.items():
        _check_entry(path, name, entry, size - 8 - length)
    return list(header)


def _check_entry(path: Path, name: str, entry: object, data_size: int) -> None:
    match entry:
        case {"dtype": str(kind), "data_offsets": [int(start), int(end)]} if 0 <= start <= end:
            pass
        case _:
            raise CorruptModel(f"{path}: the header's entry for {name!r} is malformed")
    if end > data_size:
        raise CorruptModel(
            f"{path}: the file is truncated: it has {data_size:,} bytes of data, but tensor {name!r} reaches to byte "
            f"{end:,}; download it again"
        )
    if kind not in _KNOWN_TYPES:
        raise UnsupportedModel(
            f"{path}: tensor {name!r} has type {kind}; known types: {', '.join(_KNOWN_TYPES)}"
        )
