"""Why each call of a trace computed what it computed: tokens reused, the first that differed, and the cause."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum

from sgrt_frontend.replay import common_prefix
from sgrt_frontend.rope import PieceKind, Rope
from sgrt_frontend.trace import CallKind, Trace, TracedCall


class MissCause(Enum):
    """Why the rest of a prompt was not in the cache."""

    REUSED = "reused"  # all that could be reused was
    NEVER_SEEN = "never seen"  # no earlier call goes on like this
    IN_FLIGHT = "in flight"  # a call that had these tokens was still running
    EVICTED = "evicted"  # an earlier call had these tokens, the cache no longer did
    CHANGING_CONSTANT = "changing constant"  # a text changes between calls and its surroundings do not
    WHITESPACE = "whitespace"  # two texts differ in blanks alone
    REORDERED = "reordered"  # two texts hold the same parts in another order
    TEMPLATE_DRIFT = "template drift"  # the chat template's marks differ


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheExplanation:
    """One call: what it reused, what an unlimited cache would have, and where and why the two texts part.

    `position` is the first prompt token that no earlier call had. `here` and `before` are the texts from
    there on, in this call and in the earlier call (`like`) that shares most with it.
    """

    label: str
    variable: str
    prompt_tokens: int
    cached_tokens: int
    reusable_tokens: int
    cause: MissCause
    position: int
    like: str = ""
    here: str = ""
    before: str = ""

    @property
    def lost_tokens(self) -> int:
        """Tokens computed again although an earlier call had them."""
        return max(0, self.reusable_tokens - self.cached_tokens)


def explain_cache(trace: Trace, *, page_tokens: int = 1) -> list[CacheExplanation]:
    """Explain every call in the order in which the calls started.

    `page_tokens` is the cache's granularity: fewer lost tokens than a page are not a loss.
    """
    explanations: list[CacheExplanation] = []
    seen: list[TracedCall] = []
    for call in trace.ordered():
        if not call.error:
            explanations.append(_explained(call, seen, page_tokens))
            seen.append(call)
    return explanations


def _explained(call: TracedCall, seen: list[TracedCall], page_tokens: int) -> CacheExplanation:
    most = max(0, len(call.prompt) - 1)  # the last token is always computed
    finished = [other for other in seen if other.started_s + other.seconds <= call.started_s]
    best, shared = _closest(call, seen)
    reusable = min(most, shared)
    if best is None:
        cause = MissCause.NEVER_SEEN
    elif min(most, _closest(call, finished)[1]) - call.cached_tokens >= max(1, page_tokens):
        cause = MissCause.EVICTED
    elif reusable - call.cached_tokens >= max(1, page_tokens):
        cause = MissCause.IN_FLIGHT
    elif shared >= most:
        cause = MissCause.REUSED
    else:
        cause = _difference(call, best, shared)
    return CacheExplanation(
        label=call.label,
        variable=call.variable,
        prompt_tokens=len(call.prompt),
        cached_tokens=call.cached_tokens,
        reusable_tokens=reusable,
        cause=cause,
        position=shared,
        like=best.label if best is not None else "",
        here=_rest(call.before, shared)[:60],
        before=_rest_of_call(best, shared)[:60] if best is not None else "",
    )


def _closest(call: TracedCall, others: list[TracedCall]) -> tuple[TracedCall | None, int]:
    """The call that shares the longest beginning (the first of equals), and how many tokens that is."""
    best, shared = None, 0
    for other in others:
        common = common_prefix(call.prompt, _kept(other))
        if best is None or common > shared:
            best, shared = other, common
    return best, shared


def _kept(call: TracedCall) -> tuple[int, ...]:
    """The tokens whose keys and values a call leaves in the cache: all but the last sampled one."""
    output = call.samples[0].token_ids[:-1] if call.samples and call.kind is CallKind.GENERATE else ()
    return call.prompt + output


def _difference(call: TracedCall, other: TracedCall, shared: int) -> MissCause:
    """The cause of a difference at token `shared`, from the parts of both prompts that hold it."""
    mine, theirs = _piece_at(call.before, shared), _piece_at(other.before, shared)
    if mine is None or theirs is None or mine.kind is not theirs.kind:
        return MissCause.NEVER_SEEN
    if mine.kind is PieceKind.MARKS:
        is_same_turn = (mine.turn, mine.role) == (theirs.turn, theirs.role)
        return MissCause.TEMPLATE_DRIFT if is_same_turn else MissCause.NEVER_SEEN
    if mine.kind is not PieceKind.CONSTANT:
        return MissCause.NEVER_SEEN
    return _text_difference(_rest(call.before, shared), _rest(other.before, shared))


def _text_difference(mine: str, theirs: str) -> MissCause:
    """The cause by the texts from the parting constant on."""
    start = common_prefix(tuple(map(ord, mine)), tuple(map(ord, theirs)))
    if _differ_in_blanks(mine, theirs, start):
        return MissCause.WHITESPACE
    words, others = mine[:_COMPARED].split(), theirs[:_COMPARED].split()
    if _is_reordered(words, others):
        return MissCause.REORDERED
    # After the change the texts agree again for a while: without it, that part would be shared.
    matcher = SequenceMatcher(
        None, mine[start:_COMPARED].split(), theirs[start:_COMPARED].split(), autojunk=False
    )
    if matcher.find_longest_match().size >= _ALIKE_WORDS:
        return MissCause.CHANGING_CONSTANT
    return MissCause.NEVER_SEEN


_COMPARED = 4000  # characters of each text that are compared
_ALIKE_WORDS = 8


def _differ_in_blanks(mine: str, theirs: str, start: int) -> bool:
    """Whether the texts part at blanks that only one of them has, and agree after those."""
    if not (mine[start : start + 1].isspace() or theirs[start : start + 1].isspace()):
        return False
    rest, other = "".join(mine[start:].split()), "".join(theirs[start:].split())
    return bool(rest) and rest[:32] == other[:32]


def _is_reordered(words: list[str], others: list[str]) -> bool:
    """Whether one text is the other with neighbouring runs of words exchanged."""
    plain, other_plain = _plain(words), _plain(others)
    start = next(
        (i for i, pair in enumerate(zip(plain, other_plain, strict=False)) if pair[0] != pair[1]), None
    )
    if start is None:
        return False
    # The shortest stretch from the first difference on that holds the same words in both texts.
    balance: Counter[str] = Counter()
    for word, other in zip(plain[start:], other_plain[start:], strict=False):
        balance[word] += 1
        balance[other] -= 1
        if not any(balance.values()):
            return True
    return False


def _plain(words: list[str]) -> list[str]:
    stripped = (re.sub(r"[\[\]{}(),;]", " ", word).split() for word in words)
    return [bit for bits in stripped for bit in bits]


def _piece_at(rope: Rope, position: int) -> Rope | None:
    return next((piece for piece in rope.pieces() if piece.length > position), None)


def _rest(rope: Rope, position: int) -> str:
    """The text from a token on, beginning with the whole part that holds it."""
    return "".join(piece.text for piece in rope.pieces() if piece.length > position)


def _rest_of_call(call: TracedCall, position: int) -> str:
    return _rest(call.before, position) + (call.samples[0].text if call.samples else "")
