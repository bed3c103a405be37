"""Options that several commands share."""

from __future__ import annotations

import argparse

from sgrt.config import KV_CACHE_DTYPES
from sgrt.errors import InvalidRequest

DEFAULT_MODEL = "smollm2"
_MODEL_HELP = f"a pulled name, a .gguf file, a model folder or a hub id (default: {DEFAULT_MODEL})"


def add_device(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare `--device`."""
    parser.add_argument(
        "--device", default="cpu", help="cpu, cuda, or one GPU of several: cuda:1 (default: %(default)s)"
    )


def add_kv_cache_dtype(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare `--kv-cache-dtype`."""
    parser.add_argument(
        "--kv-cache-dtype",
        choices=KV_CACHE_DTYPES,
        default="auto",
        help="of keys and values; auto is int16 on a CPU, bf16 on a GPU; int8 and fp8_e4m3 seal full pages and hold "
        "1.9 times the tokens of bf16 "
        "(default: %(default)s)",
    )


def add_context_tokens(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare `--context-tokens`."""
    parser.add_argument(
        "--context-tokens",
        type=int,
        default=None,
        help="the most that prompt and output may be together (default: the model's context)",
    )


def add_model(parser: argparse.ArgumentParser, *, is_positional: bool) -> None:
    """Declare `--model MODEL`; with `is_positional` the model may also stand alone. `model_of` has the answer."""
    if is_positional:
        parser.add_argument("model", nargs="?", default=None, help=_MODEL_HELP)
    parser.add_argument("--model", dest="model_option", metavar="MODEL", default=None, help=_MODEL_HELP)


def model_of(arguments: argparse.Namespace) -> str:
    """The model that was named, in either form.

    Raises:
        InvalidRequest: two different ones were named.
    """
    alone: str | None = getattr(arguments, "model", None)
    named: str | None = arguments.model_option
    if alone is not None and named is not None and alone != named:
        raise InvalidRequest(f"model: named twice, {alone!r} and --model {named!r}", param="model")
    return named or alone or DEFAULT_MODEL
