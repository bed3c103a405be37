"""Prompts as token ids, the same for every engine, made of a travel desk's sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

Tokens = list[int]

_PLACES = ("Bergen", "Trieste", "Cadiz", "Riga", "Galway", "Split", "Tartu", "Nantes", "Ostrava")
_TRIPS = ("the night train", "the coast ferry", "the mountain bus", "the river boat", "the early flight")
_SENTENCES = (
    "Travellers on {trip} to {place} may bring {number} kilos of luggage each.",
    "{trip} leaves for {place} at {number} minutes past every second hour.",
    "If {trip} is late by more than {number} minutes, book a room in {place} and keep the receipt.",
    "A ticket for {trip} can be moved once, up to {number} days before it leaves {place}.",
    "The desk in {place} opens at eight and closes after the last guest of {trip} has been served.",
    "Groups of {number} or more travel to {place} on {trip} at the lower fare.",
    "Name the platform and the hour first, then the price, and say when you are not sure.",
)
_QUESTIONS = (
    "I missed {trip} to {place} by {number} minutes this morning, so what can I still do with my ticket",
    "We are {number} people who want to go to {place} next week and would rather take {trip} than drive",
    "The page says {trip} costs {number} euros but I was asked for more in {place}, which one is right",
    "Can I leave my bicycle at the station in {place} for {number} days if I come back with {trip}",
)

SCHEMA: dict[str, object] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["topic", "place", "passengers", "urgent", "reply", "note"],
    "properties": {
        "topic": {"type": "string", "enum": ["ticket", "luggage", "delay", "price", "other"]},
        "place": {"type": "string", "minLength": 2, "maxLength": 16},
        "passengers": {"type": "integer", "minimum": 1, "maximum": 50},
        "urgent": {"type": "boolean"},
        "reply": {"type": "string", "minLength": 10, "maxLength": 80},
        "note": {"type": "string", "minLength": 2, "maxLength": 24},
    },
}
SCHEMA_TEXT = json.dumps(SCHEMA)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Makes prompts with the model's own tokenizer. Other salts give other texts of the same lengths."""

    encode: Callable[[str], Tokens]

    def plain(self, count: int, salt: int) -> Tokens:
        """`count` tokens of plain text."""
        tokens: Tokens = []
        index = salt * 97
        while len(tokens) < count:
            tokens += self.encode(_fill(_SENTENCES, index) + " ")
            index += 1
        return tokens[:count]

    def question(self, count: int, salt: int) -> Tokens:
        """`count` tokens that begin with a customer's question."""
        return (self.encode(_fill(_QUESTIONS, salt)) + self.plain(count, salt + 5))[:count]

    def turn(self, role: str, tokens: Tokens) -> Tokens:
        """A message between the marks of the chat format."""
        return self.encode(f"<|im_start|>{role}\n") + tokens + self.encode("<|im_end|>\n")

    def opener(self) -> Tokens:
        """What opens the model's own turn."""
        return self.encode("<|im_start|>assistant\n")

    def short(self, count: int, salt: int) -> list[Tokens]:
        """`count` prompts of about 65 tokens."""
        return [
            self.turn("user", self.question(56, salt * 1000 + index)) + self.opener()
            for index in range(count)
        ]

    def shared(self, count: int, salt: int) -> list[Tokens]:
        """`count` prompts: 1,000 tokens that all share, about 49 of their own."""
        marks = len(self.turn("system", []))
        system = self.turn("system", self.plain(1000 - marks, salt))
        return [
            system + self.turn("user", self.question(40, salt * 1000 + index)) + self.opener()
            for index in range(count)
        ]


def _fill(sentences: tuple[str, ...], index: int) -> str:
    return sentences[index % len(sentences)].format(
        trip=_TRIPS[index * 3 % len(_TRIPS)],
        place=_PLACES[index * 5 % len(_PLACES)],
        number=2 + index * 11 % 83,
    )
