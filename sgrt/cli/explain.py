"""`sgrt explain FILE:PROGRAM`: print the plan of an agent program and advice on it. No model runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator, Sequence

from sgrt.checkpoint.opening import open_checkpoint
from sgrt.cli.options import add_model, model_of
from sgrt.cli.program_file import load_program
from sgrt.errors import BackendError, InvalidRequest
from sgrt.tokenizer.chat_template import ChatTemplate
from sgrt.tokenizer.tokenizer import Tokenizer
from sgrt_frontend.backend import Backend
from sgrt_frontend.call import ORDINARY, Call, Chunk, Description, Message, Score, ScoreTerms
from sgrt_frontend.planning.report import report
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.spelling import Spelling


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "explain",
        help="print the plan of an agent program",
        description="Print the calls of a program, the tokens they share, the best possible cache hit, peak KV "
        "pages and an estimated time, with advice. Text arguments that are not given are left open.",
    )
    parser.add_argument("program", help="FILE:PROGRAM")
    parser.add_argument(
        "--arguments", default="{}", help='arguments of the program as a JSON object, {"name": value}'
    )
    add_model(parser, is_positional=False)
    parser.add_argument(
        "--no-model", action="store_true", help="count with a small built-in tokenizer instead of a model's"
    )


def run(arguments: argparse.Namespace) -> int:
    """Plan and print."""
    program = load_program(arguments.program)
    backend: Backend = ScriptedBackend() if arguments.no_model else ModelTokens(model_of(arguments))
    print(report(program.on(backend).plan_open(**_json_object(arguments.arguments))))
    return 0


def _json_object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidRequest(f"--arguments: not JSON: {error}", param="arguments") from error
    if not isinstance(value, dict):
        raise InvalidRequest("--arguments: must be a JSON object of arguments by name", param="arguments")
    return value


class ModelTokens:
    """A model's tokenizer and chat template without its weights: all that a plan needs of a backend."""

    def __init__(self, model: str) -> None:
        checkpoint = open_checkpoint(model)
        data = checkpoint.tokenizer_data
        self._tokenizer = Tokenizer(data)
        self._template = ChatTemplate(data.chat_template, self._tokenizer, data.template_tokens)
        self._description = Description(
            model=checkpoint.name,
            context_tokens=checkpoint.config.context,
            vocabulary_tokens=checkpoint.config.vocabulary,
            end_token_ids=tuple(self._tokenizer.end_token_ids),
            has_chat_template=self._template.exists,
        )

    def describe(self) -> Description:
        """The model."""
        return self._description

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        """Token ids of a text."""
        return self._tokenizer.encode(text, special=special, is_start=is_start)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens."""
        return self._tokenizer.decode(token_ids)

    def begin_tokens(self) -> tuple[int, ...]:
        """What every prompt of plain text starts with."""
        return self._tokenizer.begin_tokens

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        """Token ids of a chat."""
        return self._template.render(messages, add_generation_prompt=open_assistant)

    def spelling(self) -> Spelling:
        """Not there: a plan makes no selections."""
        raise BackendError("a tokenizer alone makes no selections")

    def generate(self, call: Call) -> AsyncIterator[Chunk]:
        """Not there: a plan generates nothing."""
        raise BackendError("a tokenizer alone generates nothing")

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        """Not there: a plan scores nothing."""
        raise BackendError("a tokenizer alone scores nothing")
