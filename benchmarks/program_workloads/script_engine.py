"""An engine whose model is a script: real tokens, scheduling, pages and masks, without the arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from typing_extensions import Unpack

import sgrt
from sgrt.checkpoint.opening import open_checkpoint
from sgrt.config import EngineConfig, EngineSettings, resolve_limits
from sgrt.engine.engine import Engine
from sgrt.engine.parts import EngineParts
from sgrt.engine.scripted import Script, ScriptedRunner
from sgrt.tokenizer.chat_template import ChatTemplate
from sgrt.tokenizer.tokenizer import Tokenizer

_LOGIT = 30.0


def rambling(words: Sequence[int]) -> Script:
    """A script that says words without end, others after every prompt."""

    def script(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        place = hash((len(prompt), len(output), *prompt[-24:], *output[-1:]))
        return {words[place % len(words)]: _LOGIT}

    return script


def script_engine(model: str, *, clock: Callable[[], float], **settings: Unpack[EngineSettings]) -> Engine:
    """An engine with the tokenizer and template of `model`, on a script that never ends by itself."""
    checkpoint = open_checkpoint(model)
    data = checkpoint.tokenizer_data
    tokenizer = Tokenizer(data)
    context = checkpoint.config.context
    config = EngineConfig(model=model, **settings)
    limits = resolve_limits(config, model_context_tokens=context, bytes_per_token=8, available_bytes=1 << 30)
    words = [token for word in _WORDS.split() for token in tokenizer.encode(f" {word}")]
    runner = ScriptedRunner(
        rambling(words),
        vocabulary_tokens=checkpoint.config.vocabulary,
        num_pages=limits.num_pages,
        page_tokens=config.page_tokens,
    )
    parts = EngineParts(
        name=model,
        runner=runner,
        limits=limits,
        tokenizer=tokenizer,
        template=ChatTemplate(data.chat_template, tokenizer, data.template_tokens),
    )
    return sgrt.Engine.from_parts(parts, config, clock=clock)


_WORDS = "river stone light garden window morning letter number question answer city country market bridge paper music"
