"""From request fields to `SamplingParams`, with the limits a shared server needs."""

from __future__ import annotations

from sgrt.server.config import Limits
from sgrt.server.errors import bad_request
from sgrt.server.wire.fields import SamplingFields
from sgrt_frontend.call import SamplingParams

_SEED_MASK = 2**63 - 1  # negative seeds are legal on the wire and name the upper half


def sampling_params(
    request: SamplingFields,
    *,
    limits: Limits,
    vocabulary_tokens: int,
    max_tokens: int | None,
    logprobs: int | None,
    has_own_stops: bool = False,
) -> SamplingParams:
    """How to draw tokens for `request`. With `has_own_stops` the caller looks for stop strings itself.

    Raises:
        ApiError: a count is over its limit or a token id is not in the vocabulary.
        InvalidRequest: a value is out of range.
    """
    stops = stop_strings(request, limits)
    return SamplingParams(
        max_tokens=max_tokens,
        min_tokens=request.min_tokens or 0,
        temperature=1.0 if request.temperature is None else float(request.temperature),
        top_k=max(0, request.top_k or 0),
        top_p=1.0 if request.top_p is None else float(request.top_p),
        min_p=float(request.min_p or 0.0),
        repetition_penalty=1.0 if request.repetition_penalty is None else float(request.repetition_penalty),
        presence_penalty=float(request.presence_penalty or 0.0),
        frequency_penalty=float(request.frequency_penalty or 0.0),
        logit_bias=_logit_bias(request.logit_bias or {}, limits, vocabulary_tokens),
        seed=None if request.seed is None else request.seed & _SEED_MASK,
        n=_count(request.n or 1, limits),
        stop=() if has_own_stops else stops,
        stop_token_ids=_stop_tokens(request.stop_token_ids or [], limits, vocabulary_tokens),
        include_stop=bool(request.include_stop_str_in_output),
        ignore_eos=bool(request.ignore_eos),
        logprobs=logprobs,
        allowed_token_ids=_allowed_tokens(request.allowed_token_ids, vocabulary_tokens),
        skip_special=request.skip_special_tokens is not False,
    )


def stop_strings(request: SamplingFields, limits: Limits) -> tuple[str, ...]:
    """The stop strings of a request.

    Raises:
        ApiError: too many, too long, or an empty one.
    """
    stop = request.stop
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(stops) > limits.stop_strings:
        raise bad_request(f"stop: at most {limits.stop_strings} strings are taken", param="stop")
    if any(not text or len(text) > limits.stop_string_chars for text in stops):
        raise bad_request(f"stop: a stop string has 1 to {limits.stop_string_chars} characters", param="stop")
    return stops


def check_token_ids(token_ids: list[int], *, vocabulary_tokens: int, param: str) -> tuple[int, ...]:
    """The ids, all of them inside the vocabulary.

    Raises:
        ApiError: one is not; an id out of range would touch memory that is not its own.
    """
    for token_id in token_ids:
        if not 0 <= token_id < vocabulary_tokens:
            raise bad_request(f"{param}: token id {token_id} is not in [0, {vocabulary_tokens})", param=param)
    return tuple(token_ids)


def _count(n: int, limits: Limits) -> int:
    if n > limits.sequences:
        raise bad_request(f"n: at most {limits.sequences} outputs a request", param="n")
    return n


def _stop_tokens(token_ids: list[int], limits: Limits, vocabulary_tokens: int) -> tuple[int, ...]:
    if len(token_ids) > limits.stop_token_ids:
        raise bad_request(
            f"stop_token_ids: at most {limits.stop_token_ids} ids are taken", param="stop_token_ids"
        )
    return check_token_ids(token_ids, vocabulary_tokens=vocabulary_tokens, param="stop_token_ids")


def _allowed_tokens(token_ids: list[int] | None, vocabulary_tokens: int) -> tuple[int, ...]:
    if token_ids is None:
        return ()
    if not token_ids or len(token_ids) > vocabulary_tokens:
        raise bad_request(
            f"allowed_token_ids: 1 to {vocabulary_tokens} ids are taken", param="allowed_token_ids"
        )
    return check_token_ids(token_ids, vocabulary_tokens=vocabulary_tokens, param="allowed_token_ids")


def _logit_bias(
    bias: dict[str, float], limits: Limits, vocabulary_tokens: int
) -> tuple[tuple[int, float], ...]:
    if len(bias) > limits.logit_bias:
        raise bad_request(f"logit_bias: at most {limits.logit_bias} entries", param="logit_bias")
    entries: list[tuple[int, float]] = []
    for key, value in bias.items():
        if not (key.isascii() and key.isdigit() and len(key) < 12):
            raise bad_request(f"logit_bias: {key[:20]!r} is not a token id", param="logit_bias")
        check_token_ids([int(key)], vocabulary_tokens=vocabulary_tokens, param="logit_bias")
        entries.append((int(key), float(value)))
    return tuple(entries)
