"""What a parser finds in a model's output, in order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the reader."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text the model wrote for itself."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins; its arguments follow."""

    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The next piece of the JSON text of the latest call's arguments."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The latest call is complete: its arguments are a JSON object."""


Event = Content | Reasoning | CallStart | CallArguments | CallEnd
"""One finding. A call that is not complete has no CallEnd."""
