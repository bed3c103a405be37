"""Log-probabilities as the wire spells them. `bytes` are the token's own, also where they are half a character."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sgrt_frontend.call import TokenInfo, TokenLogprob

_LOWEST = -9999.0  # JSON has no infinity; this is what the public API sends instead

TokenBytes = Callable[[int], bytes]


def chat_logprobs(infos: Sequence[TokenInfo], token_bytes: TokenBytes) -> list[dict[str, object]]:
    """The `logprobs.content` entries of a chat choice."""
    return [
        {
            **_entry(info.chosen, token_bytes),
            "top_logprobs": [_entry(other, token_bytes) for other in info.top],
        }
        for info in infos
    ]


def completion_logprobs(
    infos: Sequence[TokenInfo], token_bytes: TokenBytes, *, offset: int, top: int
) -> dict[str, object]:
    """The `logprobs` object of a text choice whose first token stands at character `offset`."""
    tokens: list[str] = []
    offsets: list[int] = []
    for info in infos:
        tokens.append(token_text(info.chosen.token_id, token_bytes))
        offsets.append(offset)
        offset += len(tokens[-1])
    return {
        "tokens": tokens,
        "token_logprobs": [finite(info.chosen.logprob) for info in infos],
        "top_logprobs": [_best(info, token_bytes) for info in infos] if top else None,
        "text_offset": offsets,
    }


def token_text(token_id: int, token_bytes: TokenBytes) -> str:
    """A token as text; what is no whole character is spelled `bytes:\\xf0\\x9f`, so that no two look alike."""
    raw = token_bytes(token_id)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def finite(logprob: float) -> float | None:
    """`logprob`, the lowest number the wire knows, or null for NaN: a first token that nothing precedes."""
    return None if math.isnan(logprob) else max(logprob, _LOWEST)


def _entry(token: TokenLogprob, token_bytes: TokenBytes) -> dict[str, object]:
    return {
        "token": token_text(token.token_id, token_bytes),
        "logprob": finite(token.logprob),
        "bytes": list(token_bytes(token.token_id)),
    }


def _best(info: TokenInfo, token_bytes: TokenBytes) -> dict[str, float | None]:
    best = {token_text(other.token_id, token_bytes): finite(other.logprob) for other in info.top}
    best.setdefault(token_text(info.chosen.token_id, token_bytes), finite(info.chosen.logprob))
    return best
