"""Prefixes kept in the tree between the requests that share them, as their plans say."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sgrt.cache.prefix_handle import PrefixHandle
from sgrt.cache.radix import RadixTree
from sgrt.engine.sequence import Sequence


@dataclass(slots=True, kw_only=True)
class _Prefix:
    """`handle` locks it while no sequence runs on it; `uses` are still to begin. `age` counts plans: when it was used."""

    uses: Fraction
    age: int = 0
    handle: PrefixHandle | None = None


class KeptPrefixes:
    """Locks prefixes until their last use has begun (whose own lock goes on from there).

    A kept prefix is a hint: the one used longest ago is dropped when a sequence needs its pages, and so is one that
    `MAX_AGE` sequences with a plan have passed by (its program failed, or its client went away).
    """

    MAX_AGE = 4096

    __slots__ = ("_now", "_prefixes", "_tree")

    def __init__(self, tree: RadixTree) -> None:
        self._tree = tree
        self._now = 0
        self._prefixes: dict[
            tuple[str, str], _Prefix
        ] = {}  # by salt and name, the one used longest ago first

    def __len__(self) -> int:
        return len(self._prefixes)

    def begin(self, sequence: Sequence) -> None:
        """A sequence begins: one use less of everything it shares, or its part of one."""
        plan = sequence.request.plan
        if plan is None:
            return
        self._now += 1
        salt = sequence.request.cache_salt
        for share in plan.shares:
            prefix = self._prefixes.pop((salt, share.name), None) or _Prefix(uses=Fraction(share.uses))
            prefix.uses -= Fraction(1, sequence.request.plan_parts)
            prefix.age = self._now
            if prefix.uses > 0:
                self._prefixes[salt, share.name] = prefix
            elif prefix.handle is not None:
                prefix.handle.close()
        while (
            self._prefixes
            and self._prefixes[oldest := next(iter(self._prefixes))].age + self.MAX_AGE < self._now
        ):
            self._forget(oldest)

    def keep(self, sequence: Sequence) -> None:
        """A sequence ends, and all it computed is in the tree: keep what others will begin with."""
        plan = sequence.request.plan
        if plan is None:
            return
        salt = sequence.request.cache_salt
        for share in plan.shares:
            prefix = self._prefixes.get((salt, share.name))
            if prefix is None:
                continue
            end = sequence.num_computed if share.num_tokens is None else share.num_tokens
            if end > sequence.num_computed:
                continue
            before, prefix.handle = prefix.handle, self._tree.hold(sequence.key(end), salt=salt)
            if before is not None:
                before.close()

    @property
    def num_pages(self) -> int:
        """Pages that could be evicted if all were forgotten, and cannot now."""
        return self._tree.num_pages_freed_by(
            prefix.handle for prefix in self._prefixes.values() if prefix.handle is not None
        )

    def drop_one(self) -> bool:
        """Forget the prefix used longest ago of those that hold pages; False when there is none."""
        for key, prefix in self._prefixes.items():
            if prefix.handle is not None:
                self._forget(key)
                return True
        return False

    def clear(self) -> None:
        """Forget all."""
        for key in list(self._prefixes):
            self._forget(key)

    def _forget(self, key: tuple[str, str]) -> None:
        handle = self._prefixes.pop(key).handle
        if handle is not None:
            handle.close()
