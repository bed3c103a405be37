"""What becomes of a scripted reply under the limits and stops of its call, as an engine applies them."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sgrt_frontend.call import SamplingParams, StopReason
from sgrt_frontend.stop_search import StopSearch


@dataclass(slots=True, kw_only=True)
class ScriptedOutput:
    """The tokens of an output with the text that each of them lets out; `rest` comes out at the end."""

    token_ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    rest: str = ""
    reason: StopReason = StopReason.END_OF_TEXT
    stop: str | int | None = None


def scripted_output(
    token_ids: Sequence[int], sampling: SamplingParams, decode: Callable[[tuple[int, ...]], bytes]
) -> ScriptedOutput:
    """Take tokens until a stop or `max_tokens`. Before `min_tokens` a stop is text like any other."""
    output = ScriptedOutput()
    search = StopSearch(sampling.stop, includes_stop=sampling.include_stop)
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    for token in token_ids:
        is_stop = token in sampling.stop_token_ids and len(output.token_ids) >= sampling.min_tokens
        if len(output.token_ids) == sampling.max_tokens:
            output.reason = StopReason.LENGTH
            break
        if not is_stop or sampling.include_stop:
            output.token_ids.append(token)
            may_stop = len(output.token_ids) >= sampling.min_tokens
            output.texts.append(search.feed(decoder.decode(decode((token,))), may_stop=may_stop))
        if is_stop:
            output.reason, output.stop = StopReason.STOP_TOKEN, token
            break
        if search.stop is not None:
            output.reason, output.stop = StopReason.STOP_STRING, search.stop
            break
    output.rest = search.flush()
    return output
