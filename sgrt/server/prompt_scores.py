"""Log-probabilities of a prompt's own tokens: `prompt_logprobs`, and `echo` with `logprobs`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sgrt.server.errors import bad_request
from sgrt.server.logprobs import TokenBytes, finite, token_text
from sgrt.server.service import Service
from sgrt_frontend.call import ScoreTerms, TokenInfo, TokenLogprob


async def prompt_infos(
    service: Service, token_ids: Sequence[int], terms: ScoreTerms, *, top: int, param: str
) -> tuple[TokenInfo, ...]:
    """One entry a token, with `top` alternatives each. Nothing precedes the first: its log-probability is NaN.

    The caller holds a place for it.

    Raises:
        ApiError: alternatives are asked for, and the backend gives none.
    """
    if not token_ids:
        return ()
    first = TokenInfo(chosen=TokenLogprob(token_id=token_ids[0], logprob=math.nan))
    if len(token_ids) == 1:
        return (first,)
    (score,) = await service.score(token_ids[:1], [token_ids[1:]], terms, top=top, param=param)
    alternatives = score.top or ((),) * len(score.logprobs)
    rest = [
        TokenInfo(chosen=TokenLogprob(token_id=token_id, logprob=logprob), top=best)
        for token_id, logprob, best in zip(token_ids[1:], score.logprobs, alternatives, strict=True)
    ]
    return (first, *rest)


def check_prompt_logprobs(wanted: int | None, *, is_stream: bool, limit: int) -> None:
    """The number of alternatives is in bounds, and there is a whole answer to put them in.

    Raises:
        ApiError: it is not, or there is none.
    """
    if wanted is None:
        return
    if wanted > limit:
        raise bad_request(f"prompt_logprobs: at most {limit} are given", param="prompt_logprobs")
    if is_stream:
        raise bad_request("prompt_logprobs come with whole answers, not in a stream", param="prompt_logprobs")


def wire_prompt_logprobs(
    infos: Sequence[TokenInfo], token_bytes: TokenBytes
) -> list[dict[str, object] | None]:
    """Per token an object by token id, the token's own and the best ones; null for the first.

    `rank` counts from 1 and is null for a token that is not among the alternatives.
    """
    return [None, *(_place(info, token_bytes) for info in infos[1:])]


def _place(info: TokenInfo, token_bytes: TokenBytes) -> dict[str, object]:
    place: dict[str, object] = {
        str(info.chosen.token_id): _entry(info.chosen, None, token_bytes),
    }
    for rank, other in enumerate(info.top, start=1):
        place[str(other.token_id)] = _entry(other, rank, token_bytes)
    return place


def _entry(token: TokenLogprob, rank: int | None, token_bytes: TokenBytes) -> dict[str, object]:
    return {
        "logprob": finite(token.logprob),
        "rank": rank,
        "decoded_token": token_text(token.token_id, token_bytes),
    }
