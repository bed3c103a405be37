"""Runners that find the largest logits themselves."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class GreedyRunner(Protocol):
    """A runner that knows where the largest logits lie as soon as it has computed them."""

    def largest(self) -> list[int]:
        """Of every row of the last plan the token with the largest logit, as `masked_sample` finds it."""
        ...
