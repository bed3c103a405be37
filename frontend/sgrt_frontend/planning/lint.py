"""Advice on a plan: what would share more tokens, and what will surprise."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from sgrt_frontend.planning.plan import PlanPath, ProgramPlan
from sgrt_frontend.planning.units import UnitKind
from sgrt_frontend.rope import PieceKind, Rope
from sgrt_frontend.stand_in import MARKER
from sgrt_frontend.trace import TracedCall

_WORTH_TOKENS = 8  # fewer tokens to share are not worth a change of the program


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """One piece of advice. `tokens` is what following it would share per run."""

    source: str
    message: str
    tokens: int = 0


def lint(plan: ProgramPlan) -> list[Lint]:
    """Advice, the most tokens first.

    Looks at text that an argument (left open in the plan) puts before constants, at decisions that
    were not all tried, and at generations without a limit.
    """
    found: dict[str, Lint] = {}
    for paths in plan.items:
        for path in paths:
            for advice in _variable_before_constant(path, plan):
                known = found.get(advice.message)
                if known is None or known.tokens < advice.tokens:
                    found[advice.message] = advice
    advices = sorted(found.values(), key=lambda advice: -advice.tokens)
    return advices + _pool(plan) + _unlimited(plan) + _incomplete(plan)


def _variable_before_constant(path: PlanPath, plan: ProgramPlan) -> list[Lint]:
    """Constants that stand behind an argument's text in a call that nothing generated precedes.

    Not where calls of one run part behind that text: they share it, and moving the constants would end that.
    """
    advices: list[Lint] = []
    prompts = [call.before.pieces() for call in path.traced]
    for call, pieces in zip(path.traced, prompts, strict=True):
        first = next((i for i, piece in enumerate(pieces) if _has_argument(piece, plan)), None)
        if first is None or any(piece.kind is PieceKind.GENERATED for piece in pieces[:first]):
            continue
        if _parts_behind(pieces[first], prompts):
            continue
        tokens = _constant_tokens_after(pieces[first:])
        if tokens >= _WORTH_TOKENS:
            advices.append(
                Lint(
                    source=call.source,
                    message=(
                        f"variable text stands before a constant ({_shown(pieces[first:])!r}): moving the constant "
                        f"before it shares {tokens} more tokens between runs"
                    ),
                    tokens=tokens,
                )
            )
    return advices


def _parts_behind(piece: Rope, prompts: list[list[Rope]]) -> bool:
    """Whether prompts that share a piece go on in different ways."""
    following = set[int]()
    for pieces in prompts:
        for here, behind in pairwise(pieces):
            if here is piece:
                following.add(id(behind))
    return len(following) > 1


def _has_argument(piece: Rope, plan: ProgramPlan) -> bool:
    return any(token < 0 and plan.units[-token].kind is UnitKind.ARGUMENT for token in piece.tokens)


def _constant_tokens_after(pieces: list[Rope]) -> int:
    """Known constant tokens behind the first unknown run, up to what is generated."""
    tokens = 0
    is_behind = False
    for piece in pieces:
        if piece.kind is PieceKind.GENERATED:
            break
        for token in piece.tokens:
            is_behind = is_behind or token < 0
            if is_behind and token >= 0 and piece.kind is PieceKind.CONSTANT:
                tokens += 1
    return tokens


def _shown(pieces: list[Rope]) -> str:
    """The beginning of the constant text behind the first unknown run."""
    text = "".join(piece.text for piece in pieces if piece.kind is not PieceKind.GENERATED)
    behind = MARKER.split(text)[2::2]
    constant = next((part.strip() for part in behind if part.strip()), "")
    return constant if len(constant) <= 40 else constant[:37] + "..."


def _pool(plan: ProgramPlan) -> list[Lint]:
    """Whether the pool holds what is needed at one time."""
    pool, peak = plan.options.pool_pages, plan.peak_pages
    if pool is None or peak.high <= pool:
        return []
    may = "may need" if peak.low <= pool else "needs"
    message = (
        f"the program {may} {peak.high} KV pages at one time, the pool has {pool}: what is needed again will be "
        f"evicted; lower the concurrency ({plan.options.concurrency}) or give the engine more pages"
    )
    return [Lint(source=plan.program, message=message)]


def _unlimited(plan: ProgramPlan) -> list[Lint]:
    """Free generations without `max_tokens`: they may run to the end of the context."""
    seen: dict[str, TracedCall] = {}
    for paths in plan.items:
        for path in paths:
            for call in path.traced:
                if call.sampling.max_tokens is None and not call.constraint and call.variable != "score":
                    seen.setdefault(call.source, call)
    return [
        Lint(
            source=source,
            message=f"{call.variable or 'a value'!r} has no max_tokens: it may run to the end of the context",
        )
        for source, call in seen.items()
    ]


def _incomplete(plan: ProgramPlan) -> list[Lint]:
    if plan.is_complete:
        return []
    return [
        Lint(
            source=plan.program,
            message=f"decisions have more than {plan.options.max_runs} combinations; the plan has the first ones",
        )
    ]
