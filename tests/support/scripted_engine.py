"""A whole engine, thread and tokenizer included, whose model is a script."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache

from tiny_models import CHAT_TEMPLATE, MARKS, VOCABULARY, tiny_tokenizer

from sgrt.config import EngineConfig, EngineSettings, resolve_limits
from sgrt.engine.engine import Engine
from sgrt.engine.parts import EngineParts
from sgrt.engine.scripted import Script, ScriptedRunner, continue_with
from sgrt.tokenizer.chat_template import ChatTemplate
from sgrt.tokenizer.data import TokenizerData, TokenizerJson
from sgrt.tokenizer.tokenizer import Tokenizer

END = 266
CONTEXT_TOKENS = 4096


@cache
def tokenizer() -> Tokenizer:
    """The tiny models' tokenizer: bytes, a few merges, chat marks."""
    return Tokenizer(
        TokenizerData(
            definition=TokenizerJson(text=json.dumps(json.loads(tiny_tokenizer().to_str()))),
            vocabulary_size=VOCABULARY,
            begin_token_ids=(),
            end_token_ids=(END,),
            chat_template=CHAT_TEMPLATE,
            template_tokens=(("bos_token", MARKS[1]), ("eos_token", MARKS[2])),
        )
    )


def saying(text: str) -> Script:
    """A script that wants to say `text` after any prompt."""
    return continue_with(tokenizer().encode(text), end_token_id=END)


def scripted_engine(
    script: Script,
    *,
    close: Callable[[], None] = lambda: None,
    num_pages: int = 256,
    context_tokens: int = CONTEXT_TOKENS,
    settings: EngineSettings | None = None,
    clock: Callable[[], float] = time.monotonic,
    speaks: Tokenizer | None = None,
) -> Engine:
    """An engine that runs `script`, with integrity checks after every step."""
    own = speaks or tokenizer()
    merged: EngineSettings = {"checks_integrity": True, **(settings or {}), "num_pages": num_pages}
    config = EngineConfig(**merged)
    limits = resolve_limits(
        config, model_context_tokens=context_tokens, bytes_per_token=8, available_bytes=1 << 30
    )
    runner = ScriptedRunner(
        script, vocabulary_tokens=own.size, num_pages=num_pages, page_tokens=config.page_tokens
    )
    parts = EngineParts(
        name="scripted",
        runner=runner,
        limits=limits,
        tokenizer=own,
        template=ChatTemplate(CHAT_TEMPLATE, own),
        close=close,
    )
    return Engine.from_parts(parts, config, clock=clock)
