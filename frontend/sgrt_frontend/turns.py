"""Which chat turns a state has, and which one is open."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sgrt_frontend.call import Role
from sgrt_frontend.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The roles of all turns so far, oldest first. `number` counts them from 1; 0 is outside any turn.

    `is_closed` says that the last turn's closing marks stand in the tokens; they are appended
    as late as possible, because templates fuse them with the opening of the next turn.
    `is_inherited` says that the open turn was opened by the state this one was forked from: opening
    another turn ends it.
    """

    roles: tuple[Role, ...] = ()
    open_role: Role | None = None
    is_closed: bool = True
    is_inherited: bool = False

    @property
    def number(self) -> int:
        """The number of the open turn, 0 when none is open."""
        return len(self.roles) if self.open_role is not None else 0

    def opened(self, role: Role) -> Turns:
        """With a new turn open.

        Raises:
            InvalidRequest: another turn is open.
        """
        if self.open_role is not None and not self.is_inherited:
            raise InvalidRequest(
                f"role: the {role.value} turn cannot begin inside the open {self.open_role.value} turn",
                param="role",
            )
        return Turns(roles=(*self.roles, role), open_role=role, is_closed=False)

    def ended(self) -> Turns:
        """With no turn open, the closing marks still to come."""
        return Turns(roles=self.roles, open_role=None, is_closed=False)

    def closed(self) -> Turns:
        """With the closing marks in the tokens."""
        return Turns(roles=self.roles, open_role=None, is_closed=True)

    def inherited(self) -> Turns:
        """As a fork has them."""
        return replace(self, is_inherited=self.open_role is not None)
