"""Whether a body can be run with stand-ins without anybody noticing: it only appends to states and computes values.

A conservative answer from the source: what is not known to be without effects counts as having some.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from sgrt_frontend.planning.tainting import definition_of

_BUILTINS = frozenset(
    [
        "abs",
        "all",
        "any",
        "bool",
        "dict",
        "enumerate",
        "float",
        "int",
        "len",
        "list",
        "max",
        "min",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "sorted",
        "str",
        "sum",
        "tuple",
        "zip",
    ]
)
_PACKAGE_FUNCTIONS = frozenset(["gen", "select", "system", "user", "assistant", "tool", "mark", "reasoning"])
_STATE_METHODS = frozenset(
    [
        *(
            "system",
            "user",
            "assistant",
            "tool",
            "fork",
            "copy",
            "value",
            "values",
            "join",
            "gen",
            "var_scope",
        ),
        *("agen", "done"),
    ]
)
_VALUE_METHODS = frozenset(
    [
        "append",
        "extend",
        "items",
        "keys",
        "get",
        "format",
        "strip",
        "lstrip",
        "rstrip",
        "lower",
        "upper",
        "title",
        "capitalize",
        "replace",
        "removeprefix",
        "removesuffix",
        "split",
        "splitlines",
        "startswith",
        "endswith",
        "ljust",
        "rjust",
        "center",
        "zfill",
        "index",
        "count",
    ]
)
_METHODS = _STATE_METHODS | _VALUE_METHODS
_ROLES = frozenset({"system", "user", "assistant", "tool"})
_ALLOWED = (
    *(ast.arguments, ast.arg, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
    *(ast.Pass, ast.Expr, ast.Return, ast.If, ast.For, ast.With, ast.withitem, ast.Break, ast.Continue),
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.keyword, ast.Name, ast.Constant, ast.JoinedStr),
    *(ast.FormattedValue, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript),
    *(ast.Attribute, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Starred, ast.Slice, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.Call),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Await),
)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def is_pure(function: Callable[..., Any]) -> bool:
    """Whether running the function's body has no effect but on the states it is given."""
    return _Checker().is_pure(function)


class _Checker:
    def __init__(self) -> None:
        self._seen: set[object] = set()

    def is_pure(self, function: object) -> bool:
        if not isinstance(function, FunctionType):
            return False
        if function in self._seen:
            return True
        self._seen.add(function)
        definition = definition_of(function)
        if definition is None:
            return False
        scope = _Scope(function, definition)
        return all(self._allows(node, scope) for statement in definition.body for node in ast.walk(statement))

    def _allows(self, node: ast.AST, scope: _Scope) -> bool:
        if not isinstance(node, _ALLOWED):
            return False
        if isinstance(node, _Definition):
            return not node.decorator_list
        if isinstance(node, ast.Call):
            return self._allows_call(node.func, scope)
        if isinstance(node, ast.withitem):
            return _opens_turn(node.context_expr)
        if isinstance(node, ast.Attribute):
            return isinstance(node.ctx, ast.Load) and not node.attr.startswith("_")
        return True

    def _allows_call(self, target: ast.expr, scope: _Scope) -> bool:
        if isinstance(target, ast.Name | ast.Attribute):
            found = scope.value(target)
            if found is not None:
                return self._allows_value(found)
            if isinstance(target, ast.Name) and target.id in scope.functions:
                return True  # defined inside, and looked at there
        if not isinstance(target, ast.Attribute) or target.attr not in _METHODS:
            return False
        base = target.value
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        return not isinstance(base, ast.Name) or base.id in scope.local

    def _allows_value(self, found: object) -> bool:
        name = getattr(found, "__name__", "")
        module = getattr(found, "__module__", "") or ""
        if module == "builtins":
            return name in _BUILTINS and getattr(builtins, name, None) is found
        if found is asyncio.gather:
            return True
        if module.startswith("sgrt_frontend") and not hasattr(found, "body"):
            return name in _PACKAGE_FUNCTIONS
        return self.is_pure(getattr(found, "body", found))  # of a program: its body


class _Scope:
    """Which names are the function's own, and what the others stand for."""

    def __init__(self, function: FunctionType, definition: _Definition) -> None:
        code = function.__code__
        bound = _bound(definition)
        inner = {node.name for node in ast.walk(definition) if isinstance(node, _Definition)} - {
            definition.name
        }
        self.local = frozenset((*code.co_varnames, *code.co_cellvars, *bound, *inner))
        self.functions = frozenset(inner - bound)
        self._around = {
            **function.__globals__,
            **dict(zip(code.co_freevars, map(_content, function.__closure__ or ()), strict=True)),
        }

    def value(self, target: ast.Name | ast.Attribute) -> object | None:
        """What a name, or a name of a module, stands for; None for what is known at run time only."""
        if isinstance(target, ast.Name):
            if target.id in self.local:
                return None
            return self._around.get(target.id, getattr(builtins, target.id, None))
        if isinstance(target.value, ast.Name | ast.Attribute):
            base = self.value(target.value)
            if isinstance(base, ModuleType):
                return getattr(base, target.attr, None)
        return None


def _bound(definition: _Definition) -> set[str]:
    """Names bound anywhere inside: those of comprehensions and lambdas are in code of their own."""
    found = {
        node.id
        for node in ast.walk(definition)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return found | {node.arg for node in ast.walk(definition) if isinstance(node, ast.arg)}


def _content(cell: Any) -> object:  # noqa: ANN401 - types.CellType says Any as well
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _opens_turn(expression: ast.expr) -> bool:
    return (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Attribute)
        and (expression.func.attr == "var_scope" or (expression.func.attr in _ROLES and not expression.args))
    )
