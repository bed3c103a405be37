"""The values that cross from a program to a backend and back: Call, SamplingParams, Chunk, Usage.

Tokens go in and tokens come out. A backend never sees text that has to be tokenized again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from numbers import Integral, Real
from types import UnionType

from sgrt_frontend.characters import require_characters
from sgrt_frontend.errors import InvalidRequest
from sgrt_grammars.constraint import Constraint


class StopReason(Enum):
    """Why a generation ended."""

    END_OF_TEXT = "end_of_text"  # the model's own end token (or the constraint was complete and EOS taken)
    STOP_STRING = "stop_string"
    STOP_TOKEN = "stop_token"
    BUDGET = "budget"  # a constraint was closed in time because max_tokens ran out
    LENGTH = "length"  # max_tokens reached without a constraint
    CANCELLED = "cancelled"
    DEADLINE = "deadline"


class Origin(Enum):
    """How a token came about: fixed by the constraint, chosen under a mask, or free."""

    FORCED = "forced"
    CONSTRAINED = "constrained"
    FREE = "free"


def _require(is_valid: bool, param: str, message: str) -> None:
    if not is_valid:
        raise InvalidRequest(f"{param}: {message}", param=param)


def _require_type(value: object, kind: type | UnionType, param: str, message: str) -> None:
    # Python takes True for 1, which nobody means.
    is_flag = isinstance(value, bool) and kind in (Integral, Real)
    if is_flag or not isinstance(value, kind):
        raise InvalidRequest(f"{param}: must be {message}, not {value!r:.80}", param=param)


def _require_kind(value: object, kind: type, param: str) -> None:
    """Names both types in full: there is a SamplingParams for calls and another for `LLM`."""
    _require(isinstance(value, kind), param, f"must be {_full_name(kind)}, not {_full_name(type(value))}")


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _require_items(values: Iterable[object], kind: type, param: str, message: str) -> None:
    """Looks at each type once: a prompt has thousands of tokens and one type."""
    _require_type(values, tuple | list, param, f"a tuple of {message}")
    for found in set(map(type, values)):
        _require(issubclass(found, kind), param, f"must hold {message} only, not {found.__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is drawn.

    `temperature=0` is greedy. `top_k=0` means all tokens. `max_tokens=None` means as many as the
    context holds. `seed=None` draws a seed per request. `logprobs=None` returns none; `logprobs=k`
    returns the token's own and the k best. Of `allowed_token_ids`, if there are some, every token is drawn. Without
    `skip_special` the text shows special tokens by their spelling.

    Raises:
        InvalidRequest: a value is out of range or of another type; the message names the field.
    """

    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop: bool = False
    ignore_eos: bool = False
    logprobs: int | None = None
    allowed_token_ids: tuple[int, ...] = ()
    skip_special: bool = True

    def __post_init__(self) -> None:
        self._check_types()
        maximum = self.max_tokens
        _require(maximum is None or maximum >= 0, "max_tokens", "must be at least 0")
        _require(self.min_tokens >= 0, "min_tokens", "must be at least 0")
        _require(maximum is None or self.min_tokens <= maximum, "min_tokens", "exceeds max_tokens")
        _require(0.0 <= self.temperature <= 100.0, "temperature", "must lie in [0, 100]")
        _require(0 <= self.top_k < 2**31, "top_k", "must lie in [0, 2**31) (0 means all tokens)")
        _require(0.0 < self.top_p <= 1.0, "top_p", "must lie in (0, 1]")
        _require(0.0 <= self.min_p <= 1.0, "min_p", "must lie in [0, 1]")
        _require(0.0 < self.repetition_penalty <= 100.0, "repetition_penalty", "must lie in (0, 100]")
        _require(abs(self.presence_penalty) <= 2.0, "presence_penalty", "must lie in [-2, 2]")
        _require(abs(self.frequency_penalty) <= 2.0, "frequency_penalty", "must lie in [-2, 2]")
        _require(
            all(abs(bias) <= 100.0 for _, bias in self.logit_bias), "logit_bias", "must lie in [-100, 100]"
        )
        _require(self.seed is None or 0 <= self.seed < 2**63, "seed", "must lie in [0, 2**63)")
        _require(1 <= self.n <= 1024, "n", "must lie in [1, 1024]")
        _require(all(self.stop), "stop", "must not contain an empty string")
        for text in self.stop:
            require_characters(text, "stop")
        _require(self.logprobs is None or 0 <= self.logprobs <= 128, "logprobs", "must lie in [0, 128]")

    def _check_types(self) -> None:
        for param in _WHOLE_NUMBERS:
            value: object = getattr(self, param)
            if value is not None or param not in _OPTIONAL_NUMBERS:
                _require_type(value, Integral, param, "a whole number")
        for param in _NUMBERS:
            _require_type(getattr(self, param), Real, param, "a number")
        _require_items(self.stop, str, "stop", "strings")
        _require_items(self.stop_token_ids, Integral, "stop_token_ids", "token ids")
        _require_items(self.allowed_token_ids, Integral, "allowed_token_ids", "token ids")
        _require_items(self.logit_bias, tuple, "logit_bias", "pairs of a token id and a number")
        for token, bias in self.logit_bias:
            _require_type(token, Integral, "logit_bias", "a token id")
            _require_type(bias, Real, "logit_bias", "a number")


_LONGEST_INTERVAL_S = 1.0
_OPTIONAL_NUMBERS = ("max_tokens", "seed", "logprobs")
_WHOLE_NUMBERS = (*_OPTIONAL_NUMBERS, "min_tokens", "top_k", "n")
_NUMBERS = (
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The beginning of a call that others have in common with it: kept in the cache until they have begun.

    `name` tells it from others; every call that shares it names it. `uses` is how many outputs begin with it, all
    calls together. It ends after `num_tokens` of prompt and output; None is the end of the output.

    Raises:
        InvalidRequest: a number is below 1.
    """

    name: str
    num_tokens: int | None
    uses: int

    def __post_init__(self) -> None:
        _require_type(self.name, str, "plan.shares.name", "a string")
        _require_type(self.uses, Integral, "plan.shares.uses", "a whole number")
        _require(self.uses >= 1, "plan.shares.uses", "must be at least 1")
        if self.num_tokens is not None:
            _require_type(self.num_tokens, Integral, "plan.shares.num_tokens", "a whole number")
            _require(self.num_tokens >= 1, "plan.shares.num_tokens", "must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlan:
    """What is known of a call's place among others: hints, which never change an outcome.

    `shares` come shortest first. `path_s` is about how long it takes, from the beginning of this call, until
    everything that waits for it is done. `group` names the run or batch it belongs to: what calls of one group
    alone have used is the first to leave the cache once they are over.
    """

    shares: tuple[Share, ...] = ()
    path_s: float = 0.0
    group: str = ""

    def __post_init__(self) -> None:
        _require_type(self.group, str, "plan.group", "a string")
        _require_items(self.shares, Share, "plan.shares", "shares")
        _require_type(self.path_s, Real, "plan.path_s", "a number of seconds")
        _require(0 <= self.path_s < float("inf"), "plan.path_s", "must be at least 0 and finite")


def _check_place(priority: int, cache_salt: str, plan: CallPlan | None) -> None:
    """What says where a call stands among others, and which cache it reads."""
    _require_type(priority, Integral, "priority", "a whole number")
    _require(-(2**31) <= priority < 2**31, "priority", "must lie in [-2**31, 2**31)")
    _require_type(cache_salt, str, "cache_salt", "a string")
    if plan is not None:
        _require_kind(plan, CallPlan, "plan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to a backend: continue `prompt` under `constraint`.

    `deadline_s` is seconds from submission. `cache_salt` separates prefix caches of different
    tenants. Of two waiting calls the one with the higher `priority` goes first. `label` says where in a
    program the call stands; it is for traces and logs and never changes the outcome. `plan` says what is known of
    the calls around it. A backend may gather what follows the first chunk for `interval_s` seconds, but not the end.

    Raises:
        InvalidRequest: a value is out of range or of another type; the message names the field.
    """

    prompt: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    constraint: Constraint | None = None
    priority: int = 0
    deadline_s: float | None = None
    cache_salt: str = ""
    label: str = ""
    plan: CallPlan | None = None
    interval_s: float = 0.0

    def __post_init__(self) -> None:
        _require_items(self.prompt, Integral, "prompt", "token ids")
        _require_kind(self.sampling, SamplingParams, "sampling")
        if self.constraint is not None:
            _require_type(
                self.constraint,
                Constraint,
                "constraint",
                'a constraint such as sgrt.Regex(pattern="a+")',
            )
        _check_place(self.priority, self.cache_salt, self.plan)
        if self.deadline_s is not None:
            _require_type(self.deadline_s, Real, "deadline_s", "a number of seconds")
            _require(self.deadline_s == self.deadline_s, "deadline_s", "must be a number of seconds, not nan")
        _require_type(self.interval_s, Real, "interval_s", "a number of seconds")
        _require(0 <= self.interval_s <= _LONGEST_INTERVAL_S, "interval_s", "must lie in [0, 1]")

    @property
    def score_terms(self) -> ScoreTerms:
        """The terms on which this call has texts scored."""
        return ScoreTerms(priority=self.priority, cache_salt=self.cache_salt, plan=self.plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTerms:
    """How scores are computed beside other work; each field is as in a `Call`.

    Raises:
        InvalidRequest: a value is out of range or of another type; the message names the field.
    """

    priority: int = 0
    cache_salt: str = ""
    plan: CallPlan | None = None

    def __post_init__(self) -> None:
        _check_place(self.priority, self.cache_salt, self.plan)


ORDINARY = ScoreTerms()
"""The terms of scores about which nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """The log-probability (natural logarithm) of one token under the model, before masks and temperature."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenInfo:
    """Logprobs of one position: the token taken and the best alternatives, best first."""

    chosen: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one call: all prompt tokens, those that came from the cache, and the output's."""

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    forced_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The end of one output. `stop` is the stop string or token that ended it, if one did."""

    reason: StopReason
    usage: Usage
    stop: str | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of output number `index` of a call.

    `text` is complete characters only and excludes text that may still become a stop string, so
    it can lag behind `token_ids`. The last chunk of an output has `finish`. `cached_tokens` says early what its usage
    says at the end, for readers that stop before it; `queued_s` is how long the output waited to be computed. Both are
    None where a backend does not know.
    """

    index: int = 0
    token_ids: tuple[int, ...] = ()
    text: str = ""
    origins: tuple[Origin, ...] = ()
    logprobs: tuple[TokenInfo, ...] = ()
    finish: Finish | None = None
    cached_tokens: int | None = None
    queued_s: float | None = None


class Role(Enum):
    """The speaker of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Log-probabilities of given tokens after a prefix: one per token of the continuation, and `usage`.

    `top` holds the best tokens at each place, best first, where alternatives were asked for.
    """

    logprobs: tuple[float, ...]
    usage: Usage
    top: tuple[tuple[TokenLogprob, ...], ...] = ()

    @property
    def total(self) -> float:
        """The sum: the log-probability of the whole continuation."""
        return sum(self.logprobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a backend runs: model name, context length in tokens, end tokens, whether it has a chat template.

    Where `is_remote`, encoding and decoding take a journey each, which an event loop must not wait for.
    """

    model: str
    context_tokens: int
    vocabulary_tokens: int
    end_token_ids: tuple[int, ...]
    has_chat_template: bool
    is_remote: bool = field(default=False, compare=False)
