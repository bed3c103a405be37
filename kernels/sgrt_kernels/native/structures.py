"""The structs of `model.h`, field by field."""

from __future__ import annotations

import ctypes

import torch

PAGE_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.int16: 2}  # sgrt::PageType of exact pages

_pointer = ctypes.c_void_p
_int = ctypes.c_int32


class MatrixStruct(ctypes.Structure):
    """SgrtMatrix: a packed matrix."""

    _fields_ = [("data", _pointer), ("rows", _int), ("columns", _int), ("kind", _int), ("unused", _int)]


class LayerStruct(ctypes.Structure):
    """SgrtLayer: the weights of one layer."""

    _fields_ = [
        *(
            (name, MatrixStruct)
            for name in ("query", "key", "value", "attention_output", "gate", "up", "down")
        ),
        *(
            (name, _pointer)
            for name in (
                "attention_norm",
                "mlp_norm",
                "query_bias",
                "key_bias",
                "value_bias",
                "attention_output_bias",
                "query_norm",
                "key_norm",
                "post_attention_norm",
                "post_mlp_norm",
            )
        ),
        ("rope", _int),
        ("window", _int),
    ]


class RopeStruct(ctypes.Structure):
    """SgrtRope: one set of rotary frequencies."""

    _fields_ = [("frequencies", _pointer), ("amplitude", ctypes.c_double)]


class ModelStruct(ctypes.Structure):
    """SgrtModel: everything `sgrt_decoder_create` reads."""

    _fields_ = [
        ("embedding", MatrixStruct),
        ("output", MatrixStruct),
        ("layers", _pointer),
        ("ropes", _pointer),
        ("final_norm", _pointer),
        *(
            (name, _int)
            for name in (
                "layer_count",
                "rope_count",
                "hidden",
                "heads",
                "kv_heads",
                "head_dim",
                "intermediate",
                "vocabulary",
                "gate",
            )
        ),
        *(
            (name, ctypes.c_float)
            for name in ("epsilon", "embedding_scale", "query_scale", "attention_soft_cap", "logit_soft_cap")
        ),
    ]


class SealedLayerStruct(ctypes.Structure):
    """SgrtSealedLayer: the sealed pages of one layer."""

    _fields_ = [
        (name, _pointer)
        for name in (
            "keys",
            "key_scales",
            "key_scale_bases",
            "key_offsets",
            "key_offset_scales",
            "values",
            "value_scales",
        )
    ]


class SealsStruct(ctypes.Structure):
    """SgrtSeals: what a step over sealed pages needs beside its page table."""

    _fields_ = [
        *((name, _pointer) for name in ("layers", "sources", "targets", "own_pages")),
        *((name, _int) for name in ("count", "max_own_pages", "sealed_type", "unused")),
    ]


class StepStruct(ctypes.Structure):
    """SgrtStep: the arrays of one step."""

    _fields_ = [
        *(
            (name, _pointer)
            for name in (
                "token_ids",
                "positions",
                "slots",
                "query_starts",
                "context_lengths",
                "page_table",
                "logit_rows",
                "keys",
                "values",
                "logits",
                "seals",
                "largest",
            )
        ),
        *(
            (name, _int)
            for name in (
                "tokens",
                "sequences",
                "max_pages",
                "rows",
                "page_tokens",
                "page_type",
                "candidates",
                "unused",
            )
        ),
    ]


class AttentionStruct(ctypes.Structure):
    """SgrtAttention: one call of paged attention."""

    _fields_ = [
        *(
            (name, _pointer)
            for name in ("query", "keys", "values", "query_starts", "context_lengths", "page_table", "out")
        ),
        *(
            (name, _int)
            for name in (
                "tokens",
                "sequences",
                "max_pages",
                "page_tokens",
                "page_type",
                "heads",
                "kv_heads",
                "head_dim",
                "window",
            )
        ),
        ("scale", ctypes.c_float),
        ("soft_cap", ctypes.c_float),
        ("seals", _pointer),
    ]
