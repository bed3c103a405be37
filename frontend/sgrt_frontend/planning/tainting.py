"""Copies of functions in which text made of unknown text stays known as such.

An f-string is a plain `str`, whatever it is made of; a comparison with it would go unnoticed. In the copy every
f-string, sum and result of a call is passed through a function that turns text with a stand-in in it back into a stand-in.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

Function = Callable[..., Any]
_NAME = "__sgrt_taint__"


@functools.lru_cache(maxsize=512)
def tainted(function: Function, taint: Callable[[object], object]) -> Function:
    """The copy of a function; the function itself where its source is not to be had."""
    if not isinstance(function, FunctionType):
        return function
    definition = definition_of(function)
    code = _code(function, definition) if definition is not None else None
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[_NAME] = CellType(taint)
    if any(name not in cells for name in code.co_freevars):
        return function
    closure = tuple(cells[name] for name in code.co_freevars)
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def definition_of(function: FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The parsed source of a function, with the line numbers of its file; None for a lambda or without source."""
    try:
        module = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return None
    ast.increment_lineno(module, function.__code__.co_firstlineno - 1)
    found = module.body[0] if module.body else None
    return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None


def _code(function: FunctionType, definition: ast.FunctionDef | ast.AsyncFunctionDef) -> CodeType | None:
    """Compiled inside a function whose parameters are the names that come from around it."""
    definition.decorator_list = []
    _strip(definition)
    inner = _Taints().visit(definition)
    parameters = [ast.arg(arg=name) for name in (*function.__code__.co_freevars, _NAME)]
    around = ast.FunctionDef(
        name="around",
        args=ast.arguments(posonlyargs=[], args=parameters, kwonlyargs=[], kw_defaults=[], defaults=[]),
        body=[inner],
        decorator_list=[],
    )
    ast.copy_location(around, definition)
    module = ast.fix_missing_locations(ast.Module(body=[around], type_ignores=[]))
    outer = _constant(compile(module, function.__code__.co_filename, "exec"), "around")
    return _constant(outer, function.__name__) if outer is not None else None


def _constant(code: CodeType, name: str) -> CodeType | None:
    return next(
        (made for made in code.co_consts if isinstance(made, CodeType) and made.co_name == name), None
    )


def _strip(definition: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Without annotations; defaults are those of the function, only their number counts."""
    arguments = definition.args
    definition.returns = None
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            rest.annotation = None
    arguments.defaults = [ast.Constant(value=None) for _ in arguments.defaults]
    arguments.kw_defaults = [
        None if made is None else ast.Constant(value=None) for made in arguments.kw_defaults
    ]


class _Taints(ast.NodeTransformer):
    def _wrapped(self, node: ast.expr) -> ast.expr:
        made = ast.Call(func=ast.Name(id=_NAME, ctx=ast.Load()), args=[node], keywords=[])
        return ast.copy_location(made, node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        self.generic_visit(node)
        return self._wrapped(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return self._wrapped(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        return self._wrapped(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.FormattedValue:
        node.value = self.visit(node.value)  # a format spec is a JoinedStr that must stay one
        return node
