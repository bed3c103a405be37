"""Tools: Python functions with typed signatures that a model may call."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol, Union

from pydantic import BaseModel, ConfigDict, create_model
from pydantic_core import to_jsonable_python
from typing_extensions import Unpack

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.gen import CallOptions, Gen, gen
from sgrt_frontend.types.json_schema import adapter_of, schema_of


class ToolFunction(Protocol):
    """A function of named, typed parameters; plain or async."""

    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> object:  # noqa: ANN401 - any parameters
        """Call it."""
        ...


class ToolCall(BaseModel):
    """A call that a model made: the tool's name and its arguments, of the types of its signature."""

    model_config = ConfigDict(extra="forbid")

    name: str
    arguments: BaseModel


class Tool:
    """One function. Its docstring describes it to the model, its signature gives the arguments' schema.

    An ordinary function runs on a thread, with the context variables of whoever calls it: the program's other branches
    go on meanwhile.

    Raises:
        InvalidRequest: a parameter has no type, or takes any number of values.
    """

    def __init__(self, function: ToolFunction) -> None:
        self.function = function
        self.name = function.__name__
        self.description = inspect.getdoc(function) or ""
        self.arguments_type = _arguments_type(function)
        fields: dict[str, Any] = {"name": (Literal[self.name], ...), "arguments": (self.arguments_type, ...)}
        self.call_type: type[ToolCall] = create_model(f"{self.name}_call", __base__=ToolCall, **fields)

    @property
    def schema(self) -> dict[str, object]:
        """The JSON Schema of the arguments."""
        return schema_of(adapter_of(self.arguments_type))

    async def run(self, arguments: BaseModel) -> object:
        """Call the function."""
        values = {name: getattr(arguments, name) for name in type(arguments).model_fields}
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**values)
        result = await asyncio.to_thread(self.function, **values)
        return await result if inspect.isawaitable(result) else result


class Toolbox:
    """Tools by name: `Toolbox([search, add])`."""

    def __init__(self, functions: Iterable[ToolFunction]) -> None:
        self._tools: dict[str, Tool] = {}
        for function in functions:
            tool = Tool(function)
            if tool.name in self._tools:
                raise InvalidRequest(f"tools: two tools are named {tool.name!r}", param="tools")
            self._tools[tool.name] = tool
        if not self._tools:
            raise InvalidRequest("tools: at least one tool is needed", param="tools")

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def describe(self) -> str:
        """One line per tool: name, description and the schema of its arguments, for a prompt."""
        return "\n".join(
            f"- {tool.name}: {' '.join(tool.description.split())} "
            f"Arguments: {json.dumps(tool.schema, ensure_ascii=False)}"
            for tool in self
        )

    def gen(self, name: str, **options: Unpack[CallOptions]) -> Gen[ToolCall]:
        """Generate a call of one of the tools: `{"name": ..., "arguments": {...}}`."""
        types = tuple(tool.call_type for tool in self)
        call: Gen[ToolCall] = gen(name, Union[types], **options)  # noqa: UP007 - built from a runtime tuple
        return call

    async def run(self, call: ToolCall) -> str:
        """Call the tool; the text of what it returned. An error of the tool is told as text, so that the
        model can react to it.
        """
        try:
            result = await self._tools[call.name].run(call.arguments)
        except Exception as error:  # noqa: BLE001 - a tool may fail in any way; the model is told
            return f"Error: {type(error).__name__}: {error}"
        return (
            result if isinstance(result, str) else json.dumps(to_jsonable_python(result), ensure_ascii=False)
        )


def _arguments_type(function: ToolFunction) -> type[BaseModel]:
    signature = inspect.signature(function, eval_str=True)
    fields: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise InvalidRequest(
                f"{function.__name__}: parameter {name!r} has no name to call it by", param=name
            )
        if parameter.annotation is parameter.empty:
            raise InvalidRequest(f"{function.__name__}: parameter {name!r} needs a type", param=name)
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (parameter.annotation, default)
    made: type[BaseModel] = create_model(
        f"{function.__name__}_arguments", __config__=ConfigDict(extra="forbid"), **fields
    )
    return made
