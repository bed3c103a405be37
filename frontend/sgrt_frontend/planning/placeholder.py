"""Stand-ins for values that a model would generate.

They can be appended, formatted, joined and passed on. A value out of a few known ones (a choice, a
bool, an enum) is decided when the program looks at it, and every decision is planned. Looking into any other
value ends the static part of the plan.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NoReturn, SupportsIndex, get_args, get_origin

from pydantic import BaseModel

from sgrt_frontend.expression import Value
from sgrt_frontend.planning.oracle import NeedsValue, Oracle
from sgrt_frontend.slot import Deferred, Planned
from sgrt_frontend.stand_in import ESCAPED, OPEN


def retainted(value: object) -> object:
    """Text that was made of unknown text is unknown text itself; every other value stays as it is."""
    return _retainted(value, PlannedText)


def exactly_retainted(value: object) -> object:
    """As `retainted`, for runs whose text must come out exactly."""
    return _retainted(value, ExactText)


def _retainted(value: object, kind: type[PlannedText]) -> object:
    if type(value) is not str:
        return value
    if ESCAPED in value:
        raise NeedsValue("the repr of generated text", text=value)
    return kind(value) if OPEN in value else value


# What these make of unknown text is unknown text of about the same length.
_KEEPING = frozenset(
    {"strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize", "casefold", "swapcase"}
    | {"removeprefix", "removesuffix", "replace", "translate", "expandtabs"}
)


class PlannedText(Planned, str):
    """Unknown text. As part of other text it stays itself; looking into it is refused."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Value:
        if name.startswith("_"):
            return super().__getattribute__(name)
        return self._same if name in _KEEPING else self._refuse

    def __format__(self, spec: str) -> str:
        return str.__str__(self)

    def _same(self, *_: object, **__: object) -> PlannedText:
        return self

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NeedsValue("looking into generated text", text=str.__str__(self))

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _refuse
    __bool__ = __len__ = _refuse

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        self._refuse()

    def __iter__(self) -> Iterator[str]:
        self._refuse()

    def __hash__(self) -> int:
        self._refuse()  # to find it in a set is to compare it


class ExactText(PlannedText):
    """Unknown text that will be known when the program runs: it can be put into other text, and nothing else."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Value:
        if name.startswith("_"):
            return super().__getattribute__(name)
        return self._refuse

    def __format__(self, spec: str) -> str:
        if spec:
            self._refuse()
        return str.__str__(self)


class ExactValue(Planned):
    """An unknown value that will be known when the program runs: its text can be put into other text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __format__(self, spec: str) -> str:
        if spec:
            self._refuse()
        return self._text

    def _refuse(self, *_: object) -> NoReturn:
        raise NeedsValue("looking at a generated value", text=object.__getattribute__(self, "_text"))

    def __getattribute__(self, name: str) -> Value:
        if name.startswith("_"):
            return super().__getattribute__(name)
        return self._refuse()

    __repr__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _refuse
    __bool__ = __len__ = __iter__ = __int__ = __float__ = __index__ = __hash__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _refuse
    __getitem__ = __call__ = __round__ = _refuse


class PlannedValue(Planned):
    """An unknown number, object or list. Attributes and items are unknown values too."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __format__(self, spec: str) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text

    def __getattr__(self, name: str) -> PlannedValue:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def _same(self, *_: object) -> PlannedValue:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _same
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _same
    __getitem__ = __call__ = __round__ = _same

    def _refuse(self, *_: object) -> NoReturn:
        raise NeedsValue("looking at a generated value")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _refuse
    __bool__ = __len__ = __iter__ = __int__ = __float__ = __index__ = __hash__ = _refuse


class PlannedChoice(Planned, str):
    """One of some known texts. Formatting leaves it open; any look at it decides."""

    __slots__ = ("_decide",)
    _decide: Callable[[], str]

    def __new__(cls, text: str, decide: Callable[[], str]) -> PlannedChoice:
        """A choice that stands as `text` in other text until it is decided."""
        made = super().__new__(cls, text)
        made._decide = decide
        return made

    def __format__(self, spec: str) -> str:
        return str.__str__(self)

    def __eq__(self, other: object) -> bool:
        return self is other or self._decide() == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._decide())

    def __contains__(self, other: object) -> bool:
        return isinstance(other, str) and other in self._decide()

    def __len__(self) -> int:
        return len(self._decide())

    def __iter__(self) -> Iterator[str]:
        return iter(self._decide())

    def __getattribute__(self, name: str) -> Value:
        # Methods of str (strip, lower, split, ...) work on the decided text.
        if name.startswith("_"):
            return super().__getattribute__(name)
        return getattr(self._decide(), name)


class Undecided(Deferred):
    """A value out of known ones that cannot be left open: decided when its variable is read."""

    def __init__(self, options: list[object], key: str, oracle: Oracle) -> None:
        self._options = options
        self._key = key
        self._oracle = oracle

    def reveal(self) -> object:
        """The value this run goes on with."""
        return self._options[self._oracle.decide(self._key, len(self._options))]


class AnyProbability(Mapping[str, float]):
    """Probabilities that are not known yet; asking for one decides nothing."""

    def __init__(self, options: tuple[str, ...]) -> None:
        self._options = options

    def __getitem__(self, choice: str) -> Value:
        return PlannedValue("0.5")

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)


def placeholder(annotation: object, text: str, key: str, oracle: Oracle) -> Value:
    """A stand-in for a value of a type, whose text is `text`."""
    if annotation is str:
        return PlannedText(text)
    if annotation is bool:
        return Undecided([False, True], key, oracle)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return Undecided(list(annotation), key, oracle)
    if get_origin(annotation) is Literal:
        return _literal(get_args(annotation), text, key, oracle)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = {
            name: _field(field.annotation, text, f"{key}.{name}", oracle)
            for name, field in annotation.model_fields.items()
        }
        return annotation.model_construct(**fields)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _dataclass(annotation, text, key, oracle)
    return PlannedValue(text)


def _field(annotation: object, text: str, key: str, oracle: Oracle) -> Value:
    """A stand-in for a field: one that needs a decision waits for a look at it."""
    value = placeholder(annotation, text, key, oracle)
    return PlannedValue(text) if isinstance(value, Undecided) else value


def _literal(options: tuple[object, ...], text: str, key: str, oracle: Oracle) -> Value:
    undecided = Undecided(list(options), key, oracle)
    if all(isinstance(option, str) for option in options):
        return PlannedChoice(text, lambda: str(undecided.reveal()))
    return undecided


def _dataclass(annotation: Any, text: str, key: str, oracle: Oracle) -> Value:  # noqa: ANN401 - any dataclass
    made = object.__new__(annotation)
    for field in dataclasses.fields(annotation):
        kind = field.type if not isinstance(field.type, str) else object
        object.__setattr__(made, field.name, _field(kind, text, f"{key}.{field.name}", oracle))
    return made
