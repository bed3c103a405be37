"""What the engine was asked to do: frozen, from admission to finish."""

from __future__ import annotations

from dataclasses import dataclass, field

from sgrt_frontend.call import CallPlan, SamplingParams
from sgrt_grammars.constraint import Constraint


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Continue `prompt`, or score it.

    `arrival_s` and `deadline_s` are readings of the engine's monotonic clock. With `score_from` nothing is
    generated: the rows from position `score_from - 1` on (at least 0) give the log-probabilities of the tokens in
    `score_targets`, a tuple for each row behind the `score_prefix` given tokens, and of the `score_top` best ones. `is_private`: nobody else uses its
    `cache_salt`, so what it leaves in the cache is of no use once it is over. `plan` is what is known of the requests around it;
    `plan_parts` requests are together one use of what it shares.
    """

    id: int
    prompt: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int
    seed: int = 0
    constraint: Constraint | None = None
    priority: int = 0
    arrival_s: float = 0.0
    deadline_s: float | None = None
    cache_salt: str = ""
    is_private: bool = False
    score_from: int | None = None
    score_prefix: int = 0
    score_targets: tuple[tuple[int, ...], ...] = ()
    score_top: int = 0
    plan: CallPlan | None = None
    plan_parts: int = 1

    @property
    def group(self) -> str:
        """The requests that know of each other's needs; a plan that names none stands alone. Empty without a plan."""
        return "" if self.plan is None else self.plan.group or f"request {self.id}"

    @property
    def prefix_tokens(self) -> int:
        """Tokens that are given: the prompt; when scoring, what stands before the scored tokens."""
        return len(self.prompt) if self.score_from is None else self.score_prefix

    @property
    def reusable_tokens(self) -> int:
        """How much of the prompt may come from the cache.

        The position before each wanted logit row has to be computed: the last one for generation, those
        from `score_from - 1` on for scoring.
        """
        return (len(self.prompt) if self.score_from is None else self.score_from) - 1
