"""The header of a GGUF file: key-value metadata and where each tensor lies.

Layout (little-endian), from the format's specification in the ggml repository:

    "GGUF" | version u32 | tensor count u64 | pair count u64 | pairs | tensor records | padding | tensor data

A string is a u64 length and UTF-8 bytes. The header is parsed here, not by the `gguf` package, because a vocabulary
of 262,144 strings takes that reader seconds and because a damaged file must end in an error that says where.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from sgrt.errors import CorruptModel, UnsupportedModel

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_MAX_DIMENSIONS = 4
_MAX_ARRAY_DEPTH = 4

Scalar = int | float | bool | str
Value = Scalar | list["Value"]


class _ValueType(IntEnum):
    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


_FORMATS = {
    _ValueType.UINT8: "B",
    _ValueType.INT8: "b",
    _ValueType.UINT16: "H",
    _ValueType.INT16: "h",
    _ValueType.UINT32: "I",
    _ValueType.INT32: "i",
    _ValueType.FLOAT32: "f",
    _ValueType.BOOL: "?",
    _ValueType.UINT64: "Q",
    _ValueType.INT64: "q",
    _ValueType.FLOAT64: "d",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRecord:
    """Where a tensor lies and how it is stored."""

    name: str
    type: GGMLQuantizationType
    shape: tuple[int, ...]  # slowest dimension first, the reverse of the file's order
    offset: int  # bytes from the start of the file
    size: int  # bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one run along the fastest dimension."""
        block, block_bytes = GGML_QUANT_SIZES[self.type]
        return self.shape[-1] // block * block_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """Everything before the tensor data."""

    metadata: dict[str, Value]
    tensors: dict[str, TensorRecord]


def parse_header(path: Path, data: memoryview) -> GgufHeader:
    """Parse and check the header of the file `path`, whose whole content is `data`.

    Raises:
        CorruptModel: not a GGUF file, or one that is truncated or contradicts itself.
        UnsupportedModel: a version or tensor type this reader does not know.
    """
    cursor = _Cursor(path, data)
    if cursor.take(4) != MAGIC:
        raise CorruptModel(f"{path}: not a GGUF file (it does not start with {MAGIC.decode()!r})")
    version = cursor.number(_ValueType.UINT32)
    if version not in VERSIONS:
        raise UnsupportedModel(
            f"{path}: GGUF version {version} is unknown; known: {_listed(VERSIONS)} (little-endian)"
        )
    tensor_count = cursor.count(minimum_bytes=24)
    pair_count = cursor.count(minimum_bytes=13)
    metadata = dict(cursor.pair() for _ in range(pair_count))
    raw = [cursor.tensor() for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise CorruptModel(f"{path}: general.alignment is {alignment!r}, must be a positive integer")
    start = -(-cursor.offset // alignment) * alignment
    tensors = {record.name: record for record in (_placed(path, record, start) for record in raw)}
    _check_extents(path, tensors, len(data))
    return GgufHeader(metadata=metadata, tensors=tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RawRecord:
    name: str
    shape: tuple[int, ...]
    type_number: int
    offset: int  # from the start of the tensor data


def _placed(path: Path, raw: _RawRecord, start: int) -> TensorRecord:
    try:
        type_ = GGMLQuantizationType(raw.type_number)
        block, block_bytes = GGML_QUANT_SIZES[type_]
    except (ValueError, KeyError) as error:
        known = _listed(type_.name for type_ in GGML_QUANT_SIZES)
        raise UnsupportedModel(
            f"{path}: tensor {raw.name!r} has the unknown type number {raw.type_number}; known types: {known}"
        ) from error
    if 0 in raw.shape:
        raise CorruptModel(f"{path}: tensor {raw.name!r} is empty: its shape is {list(raw.shape)}")
    if raw.shape[-1] % block:
        raise CorruptModel(
            f"{path}: tensor {raw.name!r} has rows of {raw.shape[-1]} values, not a multiple of the {block} values "
            f"in a block of {type_.name}"
        )
    elements = 1
    for extent in raw.shape:
        elements *= extent
    size = elements // block * block_bytes
    return TensorRecord(name=raw.name, type=type_, shape=raw.shape, offset=start + raw.offset, size=size)


def _check_extents(path: Path, tensors: dict[str, TensorRecord], file_size: int) -> None:
    last = max(tensors.values(), key=lambda record: record.offset + record.size, default=None)
    if last is not None and last.offset + last.size > file_size:
        raise CorruptModel(
            f"{path}: the file is truncated: it has {file_size:,} bytes, but its tensors reach to byte "
            f"{last.offset + last.size:,} (tensor {last.name!r}); download it again"
        )


def _listed(items: Iterable[object]) -> str:
    return ", ".join(str(item) for item in items)


class _Cursor:
    """Reads values one after the other and never past the end."""

    __slots__ = ("_data", "_path", "offset")

    def __init__(self, path: Path, data: memoryview) -> None:
        self._path = path
        self._data = data
        self.offset = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.offset + size
        if end > len(self._data):
            raise self._truncated(end)
        piece = bytes(self._data[self.offset : end])
        self.offset = end
        return piece

    def number(self, type_: _ValueType) -> int:
        """One integer."""
        (value,) = struct.unpack("<" + _FORMATS[type_], self.take(struct.calcsize("<" + _FORMATS[type_])))
        return int(value)

    def count(self, *, minimum_bytes: int) -> int:
        """A number of things, each at least `minimum_bytes` long, that the file has room for."""
        value = self.number(_ValueType.UINT64)
        if self.offset + value * minimum_bytes > len(self._data):
            raise self._truncated(self.offset + value * minimum_bytes)
        return value

    def string(self) -> str:
        """A length and that many bytes of UTF-8."""
        return self._text(self.take(self.number(_ValueType.UINT64)))

    def pair(self) -> tuple[str, Value]:
        """A key and its value."""
        key = self.string()
        return key, self._value(self._type(), depth=0)

    def tensor(self) -> _RawRecord:
        """One tensor record."""
        name = self.string()
        dimensions = self.number(_ValueType.UINT32)
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise CorruptModel(f"{self._path}: tensor {name!r} has {dimensions} dimensions, expected 1 to 4")
        shape = tuple(reversed([self.number(_ValueType.UINT64) for _ in range(dimensions)]))
        type_number = self.number(_ValueType.UINT32)
        return _RawRecord(
            name=name, shape=shape, type_number=type_number, offset=self.number(_ValueType.UINT64)
        )

    def _type(self) -> _ValueType:
        number = self.number(_ValueType.UINT32)
        try:
            return _ValueType(number)
        except ValueError as error:
            raise CorruptModel(
                f"{self._path}: unknown metadata type {number} at byte {self.offset - 4:,}"
            ) from error

    def _value(self, type_: _ValueType, *, depth: int) -> Value:
        if type_ is _ValueType.STRING:
            return self.string()
        if type_ is _ValueType.ARRAY:
            return self._array(depth=depth + 1)
        (value,) = struct.unpack("<" + _FORMATS[type_], self.take(struct.calcsize("<" + _FORMATS[type_])))
        assert isinstance(value, int | float)
        return value

    def _array(self, *, depth: int) -> list[Value]:
        if depth > _MAX_ARRAY_DEPTH:
            raise CorruptModel(f"{self._path}: metadata arrays nested deeper than {_MAX_ARRAY_DEPTH}")
        type_ = self._type()
        if type_ is _ValueType.STRING:
            return self._strings(self.count(minimum_bytes=8))
        if type_ is _ValueType.ARRAY:
            return [self._array(depth=depth + 1) for _ in range(self.count(minimum_bytes=12))]
        size = struct.calcsize("<" + _FORMATS[type_])
        count = self.count(minimum_bytes=size)
        return list(struct.unpack(f"<{count}{_FORMATS[type_]}", self.take(count * size)))

    def _strings(self, count: int) -> list[Value]:
        """Many strings, in a loop without calls: vocabularies are the bulk of a header."""
        data, offset, limit = self._data, self.offset, len(self._data)
        unpack = struct.Struct("<Q").unpack_from
        pieces: list[Value] = []
        for _ in range(count):
            if offset + 8 > limit:
                raise self._truncated(offset + 8)
            start = offset + 8
            offset = start + unpack(data, offset)[0]
            if offset > limit:
                raise self._truncated(offset)
            pieces.append(self._text(bytes(data[start:offset])))
        self.offset = offset
        return pieces

    def _text(self, raw: bytes) -> str:
        # Some converters cut a token in the middle of a character; such a token is spelled with U+FFFD.
        return raw.decode("utf-8", errors="replace")

    def _truncated(self, needed: int) -> CorruptModel:
        return CorruptModel(
            f"{self._path}: the file is truncated: it has {len(self._data):,} bytes, but its header needs at least "
            f"{needed:,}; download it again"
        )
