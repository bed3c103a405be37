"""Registers beside the state: what was captured in each open scope. Persistent, so forks share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sgrt_grammars.automaton.canonical import canonical_json
from sgrt_grammars.automaton.node import Action, Actions


class ScopeRegister(NamedTuple):
    """The texts recorded in an open scope (canonical bytes), and the scopes around it."""

    recorded: frozenset[bytes]
    outer: ScopeRegister | None


class Capture(NamedTuple):
    """Where in the text a capture began, and the captures around it."""

    start: int
    outer: Capture | None


@dataclass(frozen=True, slots=True)
class Registers:
    """An immutable value; `apply` returns the next one."""

    scope: ScopeRegister | None = None
    capture: Capture | None = None

    @property
    def is_trivial(self) -> bool:
        """Nothing is open, so nothing can be checked against anything."""
        return self.scope is None and self.capture is None

    def apply(self, actions: Actions, text: bytes | bytearray) -> Registers | None:
        """Do `actions` at the end of `text`; None if a capture repeats a recorded one."""
        scope, capture = self.scope, self.capture
        for action in actions:
            if action is Action.ENTER:
                scope = ScopeRegister(frozenset(), scope)
            elif action is Action.EXIT:
                scope = scope.outer if scope is not None else None
            elif action is Action.BEGIN:
                capture = Capture(len(text), capture)
            else:
                assert capture is not None, "a capture ends only after it began"
                captured = bytes(text[capture.start :])
                if action is Action.END_JSON:
                    captured = canonical_json(captured)
                capture = capture.outer
                if scope is None:
                    continue
                if captured in scope.recorded:
                    return None
                scope = ScopeRegister(scope.recorded | {captured}, scope.outer)
        return Registers(scope, capture)


NO_REGISTERS = Registers()
