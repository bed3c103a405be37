"""The reasoning part of models that think before they answer."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import Unpack

from sgrt_frontend.expression import Expression, mark
from sgrt_frontend.gen import CallOptions, gen


def reasoning(
    name: str,
    *,
    begin: str = "<think>\n",
    end: str = "</think>",
    after: str = "\n\n",
    **options: Unpack[CallOptions],
) -> Expression:
    """A part in which the model thinks: `s.assistant(reasoning("why", max_tokens=200) + gen("answer", int))`.

    The text between the marks becomes the variable `name`; the marks are the model's special tokens where it
    has such tokens. The part is closed when `max_tokens` runs out, so what follows is an answer in any
    case. `after` stands between the closing mark and the answer.
    """
    thought = replace(gen(name, str, **options), stop_marks=(end,))
    return mark(begin) + thought + mark(end + after)
