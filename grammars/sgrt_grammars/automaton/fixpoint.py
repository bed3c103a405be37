"""Least fixpoints over recursive nodes, evaluated on demand and without the Python stack.

A rule is a generator: it yields the operand it needs next, is sent that operand's value and
returns its own; `None` means "nothing known yet". An operand that is being evaluated further down counts as
`None`: a smallest derivation never repeats a node on one path, so that loses no first success. Values
found under such a cut are kept only until the node they were cut at is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from sgrt_grammars.automaton.node import Node
from sgrt_grammars.limits import Meter

Value = TypeVar("Value")
Rule = Generator[Node, "Value | None", "Value | None"]


_NO_CUT = 1 << 62


class _Frame(Generic[Value]):
    __slots__ = ("cut", "node", "rule")

    def __init__(self, node: Node, rule: Rule[Value]) -> None:
        self.node = node
        self.rule = rule
        self.cut = _NO_CUT  # the lowest frame this value depends on


class Fixpoint(Generic[Value]):
    """Values of nodes under one rule. `known` reads a final value (in a 1-tuple), `store` keeps one."""

    def __init__(
        self,
        rule: Callable[[Node], Rule[Value]],
        known: Callable[[Node], tuple[Value | None] | None],
        store: Callable[[Node, Value | None], None],
        meter: Meter,
        *,
        is_success_final: bool,
    ) -> None:
        self._rule = rule
        self._known = known
        self._store = store
        self._meter = meter
        self._is_success_final = is_success_final

    def value(self, root: Node) -> Value | None:
        """The final value of `root`."""
        known = self._known(root)
        if known is not None:
            return known[0]
        provisional: dict[int, tuple[Value | None, int]] = {}
        depth_of: dict[int, int] = {root.index: 0}
        stack = [_Frame[Value](root, self._rule(root))]
        sent: Value | None = None
        while stack:
            frame = stack[-1]
            self._meter.tick()
            try:
                operand = frame.rule.send(sent)
            except StopIteration as stop:
                sent = stop.value
                self._finish(stack, provisional, depth_of, sent)
                continue
            sent = None
            known = self._known(operand)
            if known is not None:
                sent = known[0]
            elif operand.index in provisional:
                sent, cut = provisional[operand.index]
                frame.cut = min(frame.cut, cut)
            elif operand.index in depth_of:
                frame.cut = min(frame.cut, depth_of[operand.index])
            else:
                depth_of[operand.index] = len(stack)
                stack.append(_Frame(operand, self._rule(operand)))
        return sent

    def _finish(
        self,
        stack: list[_Frame[Value]],
        provisional: dict[int, tuple[Value | None, int]],
        depth_of: dict[int, int],
        value: Value | None,
    ) -> None:
        frame = stack.pop()
        depth = len(stack)
        del depth_of[frame.node.index]
        if frame.cut == depth:
            for index in [i for i, (_, cut) in provisional.items() if cut >= depth]:
                del provisional[index]
        if frame.cut >= depth or (self._is_success_final and value is not None):
            self._store(frame.node, value)
            return
        provisional[frame.node.index] = (value, frame.cut)
        stack[-1].cut = min(stack[-1].cut, frame.cut)
