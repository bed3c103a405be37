"""Loads the CPU kernels and declares their C functions."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from sgrt_native import load_library

_FOLDER = Path(__file__).parent
_pointer = ctypes.c_void_p
_int = ctypes.c_int32
_size = ctypes.c_uint64

# name: (result, arguments)
_FUNCTIONS: dict[str, tuple[type | None, list[type]]] = {
    "sgrt_vector_name": (ctypes.c_char_p, []),
    "sgrt_team_create": (_pointer, [_int]),
    "sgrt_team_destroy": (None, [_pointer]),
    "sgrt_arena_create": (_pointer, [_size]),
    "sgrt_arena_data": (_pointer, [_pointer]),
    "sgrt_arena_destroy": (None, [_pointer]),
    "sgrt_drop_file_pages": (None, [_pointer, _size]),
    "sgrt_packed_bytes": (_size, [_int, _int, _int, _pointer]),
    "sgrt_pack": (None, [_pointer, _int, _pointer, _size, _pointer]),
    "sgrt_unpack_row": (None, [_pointer, _int, _pointer]),
    "sgrt_multiply": (_int, [_pointer, _pointer, _pointer, _int, _pointer]),
    "sgrt_paged_attention": (_int, [_pointer, _pointer]),
    "sgrt_seal_pages": (_int, [_pointer]),
    "sgrt_read_all": (None, [_pointer, _pointer, _size]),
    "sgrt_multiply_many": (_size, [_pointer, _int]),
    "sgrt_advise_large_pages": (None, [_pointer, _size]),
    "sgrt_advise_small_pages": (None, [_pointer, _size]),
    "sgrt_decoder_create": (_pointer, [_pointer, _pointer]),
    "sgrt_decoder_destroy": (None, [_pointer]),
    "sgrt_decoder_forward": (_int, [_pointer, _pointer]),
}


@cache
def kernels(flags: Sequence[str] = ()) -> ctypes.CDLL:
    """The library of CPU kernels. `flags` choose a variant: `-DSGRT_AVX2` or `-DSGRT_PORTABLE`.

    Raises NativeUnavailable where it cannot be built.
    """
    library = load_library("kernels", sorted(_FOLDER.glob("*.cc")), include=[_FOLDER], flags=flags)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
