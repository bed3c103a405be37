"""A sequence: the mutable progress of one output, from admission to finish. The scheduler is its only writer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sgrt.cache.prefix_handle import PrefixHandle
from sgrt.cache.radix import TOKEN_BYTES, pack_tokens
from sgrt.request import Request


class SequenceStatus(Enum):
    """Where a sequence stands."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(slots=True, kw_only=True)
class Awaited:
    """A prefix that another running sequence is computing: wait until it has `num_tokens` of its tokens."""

    sequence: Sequence
    num_tokens: int

    @property
    def is_coming(self) -> bool:
        """Whether waiting on still pays."""
        provider = self.sequence
        return provider.status is SequenceStatus.RUNNING and provider.num_computed < self.num_tokens


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """Tokens of one output of a request and the pages that hold their keys and values.

        tokens   [ prompt ................. | output ..... ]
        computed [ cached | computed ....... )                num_computed
                                            [ chunk ... | drafts )   the next step

    `rank` orders sequences, smallest first: by arrival, which a level of priority moves forward by
    `aging_s` seconds. Waiting therefore ages by itself, and the order never changes.
    """

    request: Request
    index: int
    rank: tuple[float, int]
    tokens: list[int] = field(init=False)
    drafts: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    tails: list[int] = field(
        default_factory=list
    )  # tail pages of the pages from `first_tail` on; see `PageBook`
    first_tail: int = 0
    num_computed: int = 0
    status: SequenceStatus = SequenceStatus.WAITING
    handle: PrefixHandle | None = None
    cached_tokens: int | None = None  # prompt tokens found in the cache when it was first admitted
    awaited: Awaited | None = None
    _key: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = list(self.request.prompt)
        self._key = bytearray(pack_tokens(self.tokens))

    @property
    def num_prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.request.prompt)

    @property
    def num_output_tokens(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - len(self.request.prompt)

    @property
    def num_wanted(self) -> int:
        """How many tokens must be computed before the next logits."""
        return len(self.tokens)

    @property
    def num_remaining(self) -> int:
        """Tokens still to be computed, drafts not counted."""
        return len(self.tokens) - self.num_computed

    @property
    def num_reusable(self) -> int:
        """How many leading tokens may come from the cache."""
        if self.num_output_tokens:
            return len(self.tokens) - 1
        return self.request.reusable_tokens

    def key(self, num_tokens: int) -> bytes:
        """The first tokens, packed for the radix tree."""
        return bytes(self._key[: num_tokens * TOKEN_BYTES])

    def append(self, token: int) -> None:
        """Add a generated token."""
        self.tokens.append(token)
        self._key += pack_tokens((token,))

    def logits_from(self, start: int, num_tokens: int, num_drafts: int) -> int:
        """Of a chunk that starts at `start`, the first token whose logits are wanted; its length for none."""
        end = start + num_tokens
        if self.request.score_from is not None:
            return min(max(0, self.request.score_from - 1 - start), num_tokens)
        wants_next = self.request.max_tokens > 0 and end - num_drafts == len(self.tokens)
        return num_tokens - num_drafts - 1 if wants_next else num_tokens
