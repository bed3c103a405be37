"""From a call to a request: everything that can be refused before any work is done."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from numbers import Integral

from sgrt.config import Limits
from sgrt.engine.score_tree import ScorePath
from sgrt.errors import ContextOverflow, InvalidRequest
from sgrt.request import Request
from sgrt_frontend.call import ORDINARY, Call, SamplingParams, ScoreTerms
from sgrt_grammars.constraint import AnyText

_LONGEST_DEADLINE_S = 366 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """Checks calls against what the engine can hold.

    `vocabulary_tokens` counts the ids that stand for tokens: logits and embedding may be wider, which is padding.
    Without `shares_prefixes` every request gets a cache of its own (its outputs still share the prompt).
    """

    limits: Limits
    vocabulary_tokens: int
    end_token_ids: Collection[int]
    shares_prefixes: bool = True

    def request(self, call: Call, *, id: int, seed: int, now_s: float) -> Request:
        """The request of a call. `seed` is used where the call has none; `now_s` is the time of arrival.

        Raises:
            ContextOverflow: prompt and output do not fit the context or the pool; says both lengths.
            InvalidRequest: a value is out of range or contradicts another; names the parameter.
        """
        sampling = call.sampling
        max_tokens = self._max_tokens(len(call.prompt), sampling)
        self._check_tokens(call.prompt, "prompt")
        self._check_sampling(sampling)
        if call.constraint is not None:
            self._check_constrained(sampling, is_free=isinstance(call.constraint, AnyText))
        if call.deadline_s is not None:
            _check_deadline(call.deadline_s)
        return Request(
            id=id,
            prompt=call.prompt,
            sampling=sampling,
            max_tokens=max_tokens,
            seed=seed if sampling.seed is None else int(sampling.seed),
            constraint=call.constraint,
            priority=int(call.priority),
            arrival_s=now_s,
            deadline_s=None if call.deadline_s is None else now_s + call.deadline_s,
            cache_salt=self._salt(call.cache_salt, id),
            is_private=not self.shares_prefixes,
            plan=call.plan if self.shares_prefixes else None,
        )

    def check_scores(self, prefix: Sequence[int], continuations: Sequence[Sequence[int]]) -> None:
        """Refuse scores that are wrong as asked for, whether there is anything to compute or not.

        Raises:
            InvalidRequest: the prefix is empty, or something is no token id of this vocabulary.
        """
        if not prefix:
            raise InvalidRequest(
                "prefix: is empty, and the first token of a text has no distribution; start with begin_tokens()",
                param="prefix",
            )
        self._check_ids(prefix, "prefix")
        for tokens in continuations:
            self._check_ids(tokens, "continuations")

    def score_request(
        self,
        prefix: Sequence[int],
        path: ScorePath,
        terms: ScoreTerms = ORDINARY,
        *,
        id: int,
        now_s: float,
        top: int = 0,
        plan_parts: int = 1,
    ) -> Request:
        """The request that scores a path of a tree after `prefix`, with the `top` best alternatives at each place.

        It is one of `plan_parts` that stand for a call.

        The tokens have passed `check_scores`.

        Raises:
            ContextOverflow: both together do not fit the context or the pool.
        """
        prompt = (*prefix, *path.tokens)
        self._check_room(len(prompt) + 1, 0)
        return Request(
            id=id,
            prompt=prompt,
            max_tokens=0,
            priority=int(terms.priority),
            arrival_s=now_s,
            cache_salt=self._salt(terms.cache_salt, id),
            is_private=not self.shares_prefixes,
            score_from=len(prefix) + path.first_row,
            score_prefix=len(prefix),
            score_targets=path.targets,
            score_top=top,
            plan=terms.plan if self.shares_prefixes else None,
            plan_parts=plan_parts,
        )

    def _salt(self, cache_salt: str, id: int) -> str:
        return cache_salt if self.shares_prefixes else f"{cache_salt}\0{id}"

    def _check_ids(self, tokens: Sequence[int], param: str) -> None:
        for kind in set(map(type, tokens)):
            if not issubclass(kind, Integral):
                raise InvalidRequest(f"{param}: must hold token ids only, not {kind.__name__}", param=param)
        if tokens:
            self._check_tokens(tokens, param)

    def _check_tokens(self, tokens: Sequence[int], param: str) -> None:
        if not tokens:
            raise InvalidRequest(f"{param}: must have at least one token", param=param)
        if min(tokens) < 0 or max(tokens) >= self.vocabulary_tokens:
            wrong = next(token for token in tokens if not 0 <= token < self.vocabulary_tokens)
            raise InvalidRequest(
                f"{param}: token id {wrong} is outside the vocabulary of {self.vocabulary_tokens} tokens",
                param=param,
            )

    def _check_sampling(self, sampling: SamplingParams) -> None:
        for param, ids in (
            ("stop_token_ids", sampling.stop_token_ids),
            ("allowed_token_ids", sampling.allowed_token_ids),
            ("logit_bias", [token for token, _ in sampling.logit_bias]),
        ):
            if ids:
                self._check_tokens(ids, param)
        ends = {*sampling.stop_token_ids, *(() if sampling.ignore_eos else self.end_token_ids)}
        if sampling.allowed_token_ids and sampling.min_tokens and ends.issuperset(sampling.allowed_token_ids):
            raise InvalidRequest(
                "allowed_token_ids: all of them end the text, which min_tokens forbids",
                param="allowed_token_ids",
            )

    def _check_constrained(self, sampling: SamplingParams, *, is_free: bool) -> None:
        """A constraint says itself where the text ends: nothing else may cut it. Text that `is_free`, but for what it must
        not hold, may end at a stop string (a stop token may be none that the constraint allows).
        """
        if sampling.stop and not is_free:
            raise InvalidRequest(
                "stop: cannot be combined with a constraint, which it would cut short; say in the constraint "
                "where the text ends",
                param="stop",
            )
        if any(token not in self.end_token_ids for token in sampling.stop_token_ids):
            raise InvalidRequest(
                "stop_token_ids: cannot be combined with a constraint, which they would cut short",
                param="stop_token_ids",
            )
        if sampling.allowed_token_ids:
            raise InvalidRequest(
                "allowed_token_ids: cannot be combined with a constraint, which says itself what is allowed",
                param="allowed_token_ids",
            )

    def _max_tokens(self, prompt_tokens: int, sampling: SamplingParams) -> int:
        wanted = sampling.max_tokens
        self._check_room(prompt_tokens, max(1, sampling.min_tokens) if wanted is None else wanted)
        if wanted is not None:
            return wanted
        return self.limits.request_tokens - prompt_tokens

    def _check_room(self, prompt_tokens: int, output_tokens: int) -> None:
        total = prompt_tokens + output_tokens
        asked = f"a prompt of {prompt_tokens} tokens" + (
            f" with {output_tokens} to follow" if output_tokens else ""
        )
        if total > self.limits.context_tokens:
            most = self.limits.model_context_tokens
            advice = f", or raise context_tokens (to {most} at most)" if self.limits.can_raise_context else ""
            raise ContextOverflow(
                # Words that client libraries (litellm) know an overflow by.
                f"{asked} is longer than the model's context length of {self.limits.context_tokens} tokens; shorten "
                f"the prompt or lower max_tokens{advice}",
                param="prompt",
            )
        if total - min(1, output_tokens) > self.limits.pool_tokens:
            raise ContextOverflow(
                f"{asked} is longer than the KV pool of {self.limits.pool_tokens} tokens; shorten the prompt, "
                "lower max_tokens or raise num_pages",
                param="prompt",
            )


def _check_deadline(deadline_s: float) -> None:
    if not (math.isfinite(deadline_s) and 0 <= deadline_s <= _LONGEST_DEADLINE_S):
        raise InvalidRequest(
            f"deadline_s: must lie in [0, {_LONGEST_DEADLINE_S:.0f}] seconds (a year), not {deadline_s}; "
            "leave it out for no deadline",
            param="deadline_s",
        )
