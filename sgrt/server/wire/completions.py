"""The body of /v1/completions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sgrt.server.wire.base import Texts, TokenIds
from sgrt.server.wire.fields import SamplingFields


class CompletionRequest(SamplingFields):
    """A text completion request. `prompt` is one text, several, token ids, or several lists of token ids.

    A text is the whole prompt, a template's marks and all: they become special tokens unless `special` is false.
    """

    prompt: str | Texts | TokenIds | Annotated[list[TokenIds], Field(fail_fast=True)]
    logprobs: Annotated[int | None, Field(ge=0)] = None
    echo: bool | None = None
    add_special_tokens: bool | None = None
    special: bool | None = None
