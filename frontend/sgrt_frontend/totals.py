"""Sums of usage."""

from __future__ import annotations

from sgrt_frontend.call import Usage

NOTHING_USED = Usage(prompt_tokens=0, cached_tokens=0, output_tokens=0)


def added(left: Usage, right: Usage) -> Usage:
    """The sum of two usages."""
    return Usage(
        prompt_tokens=left.prompt_tokens + right.prompt_tokens,
        cached_tokens=left.cached_tokens + right.cached_tokens,
        output_tokens=left.output_tokens + right.output_tokens,
        forced_tokens=left.forced_tokens + right.forced_tokens,
    )
