"""Options that several commands share."""

from __future__ import annotations

import argparse

from sgrt.config import KV_CACHE_DTYPES


def add_kv_cache_dtype(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare `--kv-cache-dtype`."""
    parser.add_argument(
        "--kv-cache-dtype",
        choices=KV_CACHE_DTYPES,
        default="auto",
        help="of keys and values; int8 and fp8_e4m3 seal full pages and hold 1.9 times the tokens of bf16 "
        "(default: %(default)s)",
    )
