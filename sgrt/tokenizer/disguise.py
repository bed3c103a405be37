"""Keeps special tokens that users write from being taken for those a chat template writes.

Wherever a user's text spells a special token, one private-use character stands for it while the template
runs, and is turned back into text afterwards. Everything else stays as it is, so a template that trims, splits or
compares contents does what it does elsewhere. A text whose edge is a piece of a special token, to which
the template or the next text might add the rest, has the character at that edge replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sgrt.tokenizer.mark_pattern import mark_pattern

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]

_PRIVATE_USE = range(0xF0000, 0xFFFFE)


class Marks:
    """The spellings of a tokenizer's special tokens, ready to be searched for."""

    def __init__(self, spellings: Iterable[str]) -> None:
        ordered = tuple(spellings)
        self.pattern = mark_pattern(ordered)
        self._starts = frozenset(mark[:size] for mark in ordered for size in range(1, len(mark)))
        self._ends = frozenset(mark[size:] for mark in ordered for size in range(1, len(mark)))
        self._longest = max(map(len, ordered), default=0)

    def found_in(self, text: str) -> Iterator[str]:
        """What of `text` must not reach a template: whole special tokens, and characters at its edges."""
        yield from self.pattern.findall(text)
        if self.may_begin(text):
            yield text[-1]
        if self.may_end(text):
            yield text[0]

    def may_begin(self, text: str) -> bool:
        """Whether a special token may begin in the last characters of `text`."""
        return any(text[-size:] in self._starts for size in range(1, min(len(text) + 1, self._longest)))

    def may_end(self, text: str) -> bool:
        """Whether a special token may end in the first characters of `text`."""
        return any(text[:size] in self._ends for size in range(1, min(len(text) + 1, self._longest)))


class Disguise:
    """The stand-ins of one rendering."""

    __slots__ = ("_marks", "_stand_ins")

    def __init__(self, marks: Marks, values: Json, template: str) -> None:
        """Choose a character for everything in `values` that needs one, found in neither them nor `template`."""
        texts = list(_texts(values))
        found = dict.fromkeys(piece for text in texts for piece in marks.found_in(text))
        used = {character for text in (*texts, template) for character in text} if found else set()
        free = (character for character in map(chr, _PRIVATE_USE) if character not in used)
        self._marks = marks
        self._stand_ins: Mapping[str, str] = dict(zip(found, free, strict=False))

    def hide(self, value: Json) -> Json:
        """`value` with stand-ins in all its texts."""
        if not self._stand_ins:
            return value
        match value:
            case str():
                return self._hidden(value)
            case list():
                return [self.hide(item) for item in value]
            case dict():
                return {self._hidden(key): self.hide(item) for key, item in value.items()}
            case _:
                return value

    def reveal(self, text: str) -> str:
        """`text` with every stand-in turned back."""
        if not self._stand_ins:
            return text
        return text.translate({ord(stand_in): piece for piece, stand_in in self._stand_ins.items()})

    def _hidden(self, text: str) -> str:
        begins, ends = self._marks.may_begin(text), self._marks.may_end(text)
        hidden = self._marks.pattern.sub(lambda match: self._stand_ins[match[0]], text)
        if begins and hidden[-1] in self._stand_ins:
            hidden = hidden[:-1] + self._stand_ins[hidden[-1]]
        if ends and hidden[0] in self._stand_ins:
            hidden = self._stand_ins[hidden[0]] + hidden[1:]
        return hidden


def _texts(value: Json) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for key, item in value.items():
                yield key
                yield from _texts(item)
