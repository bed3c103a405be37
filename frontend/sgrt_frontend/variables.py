"""The reading side of a state: variables by name or typed handle, and values generated on the spot."""

from __future__ import annotations

from typing import TypeVar, overload

from typing_extensions import Unpack

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.expression import Value, Var
from sgrt_frontend.gen import CallOptions, GenOptions, generation
from sgrt_frontend.history import History
from sgrt_frontend.slot import Meta, Planned, Slot
from sgrt_frontend.source import caller_source

T = TypeVar("T")


class Variables(History):
    """A history whose variables can be read. Reading waits; an async body awaits `get` instead."""

    @overload
    def __getitem__(self, variable: Var[T]) -> T: ...
    @overload
    def __getitem__(self, variable: str) -> Value: ...
    def __getitem__(self, variable: Var[T] | str) -> Value:
        """The value of a variable; waits for it.

        Raises:
            KeyError: there is no such variable.
            ProgramError: the call that makes it failed; the message has the line of the call.
        """
        return self._run.wait(self._slot(variable))

    def __setitem__(self, name: str, value: object) -> None:
        """Set a variable."""
        self._slots[name] = Slot.holding(name, value, caller_source())
        self._own.add(name)

    def __contains__(self, name: object) -> bool:
        """Whether the program has appended or set a variable of this name."""
        return name in self._slots

    @overload
    def value(self, name: str, type: type[T]) -> T: ...
    @overload
    def value(self, name: str, type: object = ...) -> Value: ...
    def value(self, name: str, type: object = object) -> Value:
        """The value of a variable, with its type for the reader and the type checker.

        Raises:
            TypeError: the value is of another type.
        """
        return _checked(name, self[name], type)

    @overload
    async def get(self, variable: Var[T]) -> T: ...
    @overload
    async def get(self, variable: str) -> Value: ...
    @overload
    async def get(self, variable: str, type: type[T]) -> T: ...
    async def get(self, variable: Var[T] | str, type: object = object) -> Value:
        """Await the value of a variable."""
        name = variable if isinstance(variable, str) else variable.name
        return _checked(name, await self._slot(variable).get(), type)

    def variables(self) -> dict[str, Value]:
        """All named variables with their values; waits for them."""
        return {name: self._run.wait(slot) for name, slot in self._slots.items()}

    def meta(self, variable: str | Var[object]) -> Meta:
        """How a variable came about: usage, stop reason, logprobs, probabilities; waits for it.

        Raises:
            InvalidRequest: the program set the variable itself.
        """
        slot = self._slot(variable)
        self._run.wait(slot)
        if slot.meta is None:
            raise InvalidRequest(f"{slot.name!r} was set by the program, not generated", param=slot.name)
        return slot.meta

    def _slot(self, variable: str | Var[object]) -> Slot:
        if isinstance(variable, str):
            slot = self._slots.get(variable)
            if slot is None:
                known = ", ".join(map(repr, self._slots)) or "none"
                raise KeyError(f"no variable {variable!r} in this state; it has {known}")
            return slot
        found = self._by_handle.get(id(variable))
        if found is None and not isinstance(variable, Var):
            raise KeyError(f"a variable is named by a text or by its handle, not by {variable!r}")
        if found is None:
            raise KeyError(f"the handle of {variable.name or 'a value'!r} was not appended to this state")
        return found[1]

    @overload
    def gen(self, *, n: int, **options: Unpack[GenOptions]) -> list[str]: ...
    @overload
    def gen(self, **options: Unpack[GenOptions]) -> str: ...
    @overload
    def gen(self, type: type[T], *, n: int, **options: Unpack[CallOptions]) -> list[T]: ...
    @overload
    def gen(self, type: type[T], **options: Unpack[CallOptions]) -> T: ...
    @overload
    def gen(self, type: object, **options: Unpack[CallOptions]) -> Value: ...
    def gen(self, type: object = None, *, n: int | None = None, **options: Unpack[GenOptions]) -> Value:
        """Generate a value and wait for it: `age: int = s.gen(int)`. For bodies that are not async."""
        handle = generation("", type, schema=None, n=n, options=options)
        self._append(handle)
        return self[handle]

    @overload
    async def agen(self, *, n: int, **options: Unpack[GenOptions]) -> list[str]: ...
    @overload
    async def agen(self, **options: Unpack[GenOptions]) -> str: ...
    @overload
    async def agen(self, type: type[T], *, n: int, **options: Unpack[CallOptions]) -> list[T]: ...
    @overload
    async def agen(self, type: type[T], **options: Unpack[CallOptions]) -> T: ...
    @overload
    async def agen(self, type: object, **options: Unpack[CallOptions]) -> Value: ...
    async def agen(
        self, type: object = None, *, n: int | None = None, **options: Unpack[GenOptions]
    ) -> Value:
        """Generate a value and await it: `age = await s.agen(int)`."""
        handle = generation("", type, schema=None, n=n, options=options)
        self._append(handle)
        return await self.get(handle)


def _checked(name: str, value: object, annotation: object) -> Value:
    if isinstance(annotation, type) and not isinstance(value, annotation | Planned):
        raise TypeError(f"{name!r} is {type(value).__name__}, not {annotation.__name__}: {value!r}")
    return value
