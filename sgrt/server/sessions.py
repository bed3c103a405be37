"""Sessions: a chat client resends text, but what was generated stays the tokens it was generated as.

A request that names a session and goes on where it stopped gets the tokens of the earlier turns as they are
in the cache; only what is new is encoded. Encoding an answer's text again may split it otherwise, and everything
after the first difference would have to be computed anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_TOKEN_BYTES = 36  # an int and its place in a tuple

Turn = tuple[str, str]  # role and content
Render = Callable[[Sequence[Turn], bool], tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Where a conversation stopped: its messages, the prompt they made, the answer as tokens and as text."""

    turns: tuple[Turn, ...]
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    text: str
    started_s: float
    ended_s: float

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        texts = sum(len(text) for _, text in self.turns)
        return texts + len(self.text) + _TOKEN_BYTES * (len(self.prompt) + len(self.output))


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """A prompt that goes on from a session, and how many of its tokens encoding again would have lost."""

    prompt: tuple[int, ...]
    num_saved: int


class SessionStore:
    """The latest sessions by owner and name; the oldest goes when there are too many, or too many bytes of them.

    `on_end` hears how many seconds a conversation took from its first call to its last, once it is forgotten
    or another begins under its name.
    """

    def __init__(self, capacity: int, on_end: Callable[[float], None], *, max_bytes: int) -> None:
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._bytes = 0
        self._on_end = on_end
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def get(self, owner: str, name: str) -> Session | None:
        """Where this owner's session stopped."""
        return self._sessions.get((owner, name))

    def put(self, owner: str, name: str, session: Session) -> None:
        """Remember where a session stopped."""
        before = self._sessions.get((owner, name))
        if before is not None and before.started_s != session.started_s:
            self._on_end(before.ended_s - before.started_s)
        self._bytes += session.size - (before.size if before is not None else 0)
        self._sessions[owner, name] = session
        self._sessions.move_to_end((owner, name))
        while len(self._sessions) > self._capacity or self._bytes > self._max_bytes:
            _, oldest = self._sessions.popitem(last=False)
            self._bytes -= oldest.size
            self._on_end(oldest.ended_s - oldest.started_s)


def continued(
    session: Session, turns: Sequence[Turn], full: tuple[int, ...], render: Render
) -> Continued | None:
    """The prompt of `turns` over the session's own tokens; None if they do not go on where it stopped.

    `full` is the prompt with everything encoded again. The template must write earlier turns the same way
    when later ones come; where it does not, the prompt stays as it is.
    """
    count = len(session.turns)
    if tuple(turns[:count]) != session.turns or len(turns) <= count + 1:
        return None
    if turns[count] != ("assistant", session.text):
        return None
    closed = render(turns[: count + 1], False)
    if full[: len(closed)] != closed or closed[: len(session.prompt)] != session.prompt:
        return None
    probe = (
        "x" if not session.text.endswith("x") else "y"
    )  # ends otherwise, so that the closing alone is common
    other = render([*session.turns, ("assistant", probe)], False)
    closing = _common_suffix(closed[len(session.prompt) :], other[len(session.prompt) :])
    again = closed[len(session.prompt) : len(closed) - len(closing)]
    same = _common_prefix_length(again, session.output)
    return Continued(
        prompt=(*session.prompt, *session.output, *closing, *full[len(closed) :]),
        num_saved=len(session.output) - same,
    )


def visible_tokens(
    token_ids: Sequence[int],
    text: str,
    *,
    bytes_of: Callable[[int], bytes],
    encode: Callable[[str], tuple[int, ...]],
) -> tuple[int, ...]:
    """The tokens of an output as far as they spell `text`, which is what the client saw of it.

    What a stop string cut off is not part of the conversation, nor is a special token. Where the text goes on, or ends
    inside a token, the rest of it is encoded anew.
    """
    raw = text.encode("utf-8", "replace")
    size = count = 0
    whole = (0, 0)  # tokens and bytes up to the last border between characters
    for token_id in token_ids:
        piece = bytes_of(token_id)
        if not piece or not raw.startswith(piece, size):
            break
        size, count = size + len(piece), count + 1
        if size == len(raw) or raw[size] & 0xC0 != 0x80:
            whole = (count, size)
    count, size = whole
    rest = raw[size:].decode()
    return (*token_ids[:count], *(encode(rest) if rest else ()))


def _common_suffix(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    size = 0
    while size < min(len(left), len(right)) and left[-1 - size] == right[-1 - size]:
        size += 1
    return left[len(left) - size :]


def _common_prefix_length(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    size = 0
    while size < min(len(left), len(right)) and left[size] == right[size]:
        size += 1
    return size
