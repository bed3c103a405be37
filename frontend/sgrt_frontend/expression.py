"""What a program appends to a state: constants, turns, and (in `gen` and `select`) calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NoReturn, TypeAlias

from typing_extensions import TypeVar

from sgrt_frontend.call import Role
from sgrt_frontend.characters import require_characters
from sgrt_frontend.errors import InvalidRequest

T_co = TypeVar("T_co", covariant=True)

Value: TypeAlias = Any  # the value of a variable whose type is known at run time only


class Expression:
    """Something that can stand on the right of `s +=`; expressions and strings join with `+`."""

    __slots__ = ()

    def __add__(self, other: Expression | str) -> Joined:
        return Joined(parts=(*_parts(self), *_parts(expression_of(other))))

    def __radd__(self, other: str) -> Joined:
        return Joined(parts=(*_parts(expression_of(other)), *_parts(self)))

    def __format__(self, spec: str) -> NoReturn:
        """Refuse f-strings, which would put the description of a call into the prompt.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"{type(self).__name__.lower()}(...) stands in an f-string or a format; join expressions with `+`: "
            'f"A {b} " + gen("c")'
        )

    def __str__(self) -> str:
        """Refuse `"%s" % ...` and `str(...)`, as f-strings; `repr` shows what it is.

        Raises:
            TypeError: always.
        """
        return format(self)


class Var(Generic[T_co]):
    """A variable of a state as a typed handle: `s[handle]` waits for its value, of type T.

    `name` is empty for a variable that only its handle reaches.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name under which `s["name"]` finds the value."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Refuse to be compared with a value, which a handle never equals.

        Raises:
            TypeError: `other` is no expression.
        """
        if other is None or isinstance(other, Expression):
            return id(self) == id(other)
        shown = f"s[{self.name!r}]" if self.name else "s[handle]"
        raise TypeError(f"a handle is not its value; compare {shown}")

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """Text the program fixes. `is_special` text may spell special tokens; text of users never does."""

    text: str
    is_special: bool = False

    def __post_init__(self) -> None:
        require_characters(self.text, "text")


@dataclass(frozen=True, slots=True)
class Joined(Expression):
    """Expressions one after the other."""

    parts: tuple[Expression, ...]

    def __iter__(self) -> Iterator[Expression]:
        return iter(self.parts)


class Body(Enum):
    """What `s.user()` and its like take for a body that was left out: a block is opened."""

    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Turn(Expression):
    """A whole chat turn: the role's marks around `body`."""

    role: Role
    body: Expression


def expression_of(value: object) -> Expression:
    """The expression a value stands for.

    Raises:
        TypeError: the value is neither text nor an expression.
    """
    if isinstance(value, Expression):
        return value
    if isinstance(value, str):
        return Constant(str.__str__(value))  # a plain str, also of a subclass
    if isinstance(value, AbstractContextManager):
        raise TypeError("a turn opened by `s.user()` is used with `with`; to append one, write `user(...)`")
    raise TypeError(
        f"a state takes text and expressions, not {type(value).__name__} ({value!r}); "
        "convert it yourself, for instance with str(...)"
    )


def _parts(expression: Expression) -> tuple[Expression, ...]:
    return expression.parts if isinstance(expression, Joined) else (expression,)


def system(body: Expression | str) -> Turn:
    """A turn of instructions, appended by `s +=`."""
    return Turn(Role.SYSTEM, expression_of(body))


def user(body: Expression | str) -> Turn:
    """A turn of the user."""
    return Turn(Role.USER, expression_of(body))


def assistant(body: Expression | str) -> Turn:
    """A turn of the model; its body usually holds a `gen` or `select`."""
    return Turn(Role.ASSISTANT, expression_of(body))


def tool(body: Expression | str) -> Turn:
    """A turn with the result of a tool, for models whose template has such turns."""
    return Turn(Role.TOOL, expression_of(body))


def mark(text: str) -> Constant:
    """Template text: marks such as `<think>` become the model's special tokens.

    Never pass text of users: it could then speak with the voice of the template.
    """
    return Constant(text, is_special=True)


def image(source: object) -> NoReturn:
    """Refused: the models that sgrt runs read text only.

    Raises:
        InvalidRequest: always.
    """
    raise InvalidRequest(
        f"image: cannot append {source!r}: the models that sgrt runs read text only; "
        "describe the image in words",
        param="image",
    )
