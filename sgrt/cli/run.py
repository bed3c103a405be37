"""`sgrt run PROMPT`: complete one prompt, optionally in a given shape."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sgrt.cli.options import add_context_tokens, add_device, add_kv_cache_dtype, add_model, model_of
from sgrt.cli.user_file import read_text
from sgrt.config import ComputeMode, KvCacheDtype
from sgrt.engine.engine import Engine
from sgrt.tokenizer.opening import opened
from sgrt_frontend.call import Call, Finish, Message, Role, SamplingParams
from sgrt_grammars.constraint import Choice, Constraint, JsonSchema, Regex


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "run", help="complete one prompt", description="Complete one prompt and print it as it comes."
    )
    parser.add_argument("prompt", help="the prompt; - reads it from standard input")
    add_model(parser, is_positional=False)
    parser.add_argument(
        "--raw", action="store_true", help="continue the prompt as it is, without the chat template"
    )
    parser.add_argument("--system", default="", help="a system message")
    parser.add_argument(
        "--max-tokens", type=int, default=256, help="at most this many (default: %(default)s)"
    )
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (default: %(default)s)")
    parser.add_argument("--top-p", type=float, default=1.0, help="nucleus sampling (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="makes sampling repeatable")
    parser.add_argument("--threads", type=int, default=None, help="CPU threads (default: all cores)")
    parser.add_argument(
        "--compute",
        choices=("auto", "float32"),
        default="auto",
        help="float32 is exact and slow (default: %(default)s)",
    )
    add_context_tokens(parser)
    add_device(parser)
    add_kv_cache_dtype(parser)
    parser.add_argument("--verbose", action="store_true", help="say what was loaded, and what the call cost")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--schema", type=Path, help="a file with a JSON Schema that the output must satisfy")
    shape.add_argument("--regex", help="a regular expression the whole output must match")
    shape.add_argument("--choice", action="append", help="one possible output; give it more than once")


def run(arguments: argparse.Namespace) -> int:
    """Stream the completion to standard output."""
    sampling = SamplingParams(
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        seed=arguments.seed,
    )
    constraint = _constraint(arguments)
    text = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    compute: ComputeMode = arguments.compute
    kv_cache_dtype: KvCacheDtype = arguments.kv_cache_dtype
    with Engine(
        model_of(arguments),
        compute=compute,
        device=arguments.device,
        kv_cache_dtype=kv_cache_dtype,
        context_tokens=arguments.context_tokens,
        threads=arguments.threads,
        verbose=arguments.verbose or sys.stderr.isatty(),
    ) as engine:
        prompt = _prompt(engine, text, system=arguments.system, is_raw=arguments.raw)
        finish = None
        for chunk in engine.submit(Call(prompt=prompt, sampling=sampling, constraint=constraint)):
            print(chunk.text, end="", flush=True)
            finish = chunk.finish or finish
    print()
    if arguments.verbose and finish is not None:
        print(_cost(finish), file=sys.stderr)
    return 0


def _constraint(arguments: argparse.Namespace) -> Constraint | None:
    if arguments.schema is not None:
        return JsonSchema(text=read_text(arguments.schema, "--schema"))
    if arguments.regex is not None:
        return Regex(pattern=arguments.regex)
    if arguments.choice:
        return Choice(options=tuple(arguments.choice))
    return None


def _prompt(engine: Engine, text: str, *, system: str, is_raw: bool) -> tuple[int, ...]:
    model = engine.describe()
    if not is_raw and not model.has_chat_template:
        print(
            f"sgrt run: {model.model} has no chat template: the prompt is continued as plain text, as with --raw",
            file=sys.stderr,
        )
    if is_raw or not model.has_chat_template:
        return opened(engine.begin_tokens(), engine.encode(f"{system}{text}", special=True, is_start=True))
    head = [Message(role=Role.SYSTEM, content=system)] if system else []
    return engine.render([*head, Message(role=Role.USER, content=text)], open_assistant=True)


def _cost(finish: Finish) -> str:
    usage = finish.usage
    return (
        f"{usage.prompt_tokens} prompt tokens, {usage.output_tokens} output tokens "
        f"({usage.forced_tokens} forced), stopped by {finish.reason.value}"
    )
