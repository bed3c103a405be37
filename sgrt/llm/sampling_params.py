"""How outputs are drawn, under vLLM's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from json import dumps
from typing import Literal, Self

from sgrt.errors import InvalidRequest
from sgrt_frontend.call import SamplingParams as CallParams
from sgrt_grammars.constraint import (
    AnyText,
    Choice,
    Constraint,
    JsonObject,
    JsonSchema,
    Regex,
)
from sgrt_grammars.notation.detect import context_free

_INSTEAD = {  # what older versions, and other tools, call it
    "best_of": "write n=..., and choose among the outputs yourself",
    "guided_decoding": "write structured_outputs=StructuredOutputsParams(...)",
    "max_new_tokens": "write max_tokens=...",
    "use_beam_search": "outputs are drawn or greedy; leave it out",
    "length_penalty": "there is no beam search; leave it out",
    "early_stopping": "there is no beam search; leave it out",
    "logits_processors": "write constraint=..., logit_bias=... or bad_words=...",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How outputs are drawn; names and defaults are vLLM's.

    `constraint` takes any constraint of `sgrt_grammars`. Presence and frequency penalties count generated
    tokens, the repetition penalty those of the prompt as well. `logprobs=k` returns the k best of the model's own
    distribution, `prompt_logprobs=k` those of the prompt's tokens. None of `bad_words` is in an output, whatever tokens spell
    it. A request whose `max_tokens` exceed the context ends where the context does.
    """

    n: int = 1
    max_tokens: int | None = 16
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | None = None
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    bad_words: Sequence[str] | None = None
    skip_special_tokens: bool = True
    detokenize: Literal[True] = True
    structured_outputs: StructuredOutputsParams | None = None
    constraint: Constraint | None = None

    def __new__(cls, *_: object, **given: object) -> Self:
        """Refuse parameters that have no counterpart, by their names."""
        known = {each.name for each in fields(cls)}
        for name in given:
            if name not in known:
                alike = get_close_matches(name, known, n=1)
                advice = _INSTEAD.get(name) or (f"did you mean {alike[0]}?" if alike else "leave it out")
                raise InvalidRequest(f"{name}: SamplingParams has no such parameter; {advice}", param=name)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        if not self.detokenize:
            raise InvalidRequest("detokenize: only True is supported", param="detokenize")
        if self.structured_outputs is not None and self.constraint is not None:
            raise InvalidRequest("constraint: give either it or structured_outputs", param="constraint")
        if self.bad_words and (self.structured_outputs is not None or self.constraint is not None):
            raise InvalidRequest(
                "bad_words: applies to free text alone; say it in the constraint", param="bad_words"
            )
        if isinstance(self.bad_words, str) or not all(self.bad_words or ()):
            raise InvalidRequest("bad_words: must be a list of words, none of them empty", param="bad_words")
        if self.prompt_logprobs is not None and self.prompt_logprobs < 0:
            raise InvalidRequest(
                f"prompt_logprobs: must be at least 0, not {self.prompt_logprobs}", param="prompt_logprobs"
            )
        self.for_call(room=self.max_tokens or 0)

    def for_output(self) -> Constraint | None:
        """The constraint on an output, if there is one."""
        if self.structured_outputs is not None:
            return self.structured_outputs.constraint()
        return AnyText(without=tuple(self.bad_words)) if self.bad_words else self.constraint

    def for_call(self, *, room: int) -> CallParams:
        """The engine's own parameters for a prompt behind which the context has `room` tokens."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return CallParams(
            n=self.n,
            max_tokens=room if self.max_tokens is None else min(self.max_tokens, room),
            min_tokens=min(self.min_tokens, room) if self.max_tokens is None else self.min_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=max(0, self.top_k),
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=tuple((self.logit_bias or {}).items()),
            seed=self.seed,
            stop=stop,
            stop_token_ids=tuple(self.stop_token_ids or ()),
            include_stop=self.include_stop_str_in_output,
            ignore_eos=self.ignore_eos,
            logprobs=self.logprobs,
            skip_special=self.skip_special_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredOutputsParams:
    """The shape of an output; exactly one field is set. `json` is a schema, `grammar` is Lark, or GBNF or EBNF with `::=`."""

    json: str | Mapping[str, object] | None = None
    regex: str | None = None
    choice: Sequence[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None

    def __post_init__(self) -> None:
        if sum(1 for each in fields(self) if getattr(self, each.name)) != 1:
            names = ", ".join(each.name for each in fields(self))
            raise InvalidRequest(
                f"structured_outputs: set exactly one of {names}", param="structured_outputs"
            )

    def constraint(self) -> Constraint:
        """The constraint meant."""
        if self.json is not None:
            return JsonSchema(text=self.json if isinstance(self.json, str) else dumps(self.json))
        if self.regex is not None:
            return Regex(pattern=self.regex)
        if self.choice is not None:
            return Choice(options=tuple(self.choice))
        if self.grammar is not None:
            return context_free(self.grammar)
        return JsonObject()
