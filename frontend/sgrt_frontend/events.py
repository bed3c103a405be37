"""What a stream of a run says: pieces of text, values so far, values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sgrt_frontend.expression import Value
from sgrt_frontend.slot import Meta


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """New text of a variable. `label` names the call, `sample` the value when there are several."""

    variable: str
    label: str
    text: str
    token_ids: tuple[int, ...]
    sample: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """The value of a JSON variable so far. It only grows: what it has never changes later.

    `data` is JSON data; `value` the same with the pydantic models of the type asked for, which have the
    fields begun so far.
    """

    variable: str
    label: str
    data: object
    value: Value
    sample: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A variable has its value."""

    variable: str
    label: str
    value: object
    meta: Meta


Event: TypeAlias = Delta | Partial | Done
