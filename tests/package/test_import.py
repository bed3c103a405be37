"""`import sgrt` stays light, and every public name leads somewhere."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sgrt
import sgrt_grammars


def _exported() -> list[str]:
    """What `from sgrt import *` gives; type checkers read the imports instead, and know no `__all__`."""
    names: list[str] = vars(sgrt)["__all__"]
    return names


def _modules_after(code: str) -> set[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = f"{code}\nimport sys; print(chr(10).join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_sgrt_loads_neither_torch_nor_the_engine() -> None:
    loaded = _modules_after("import sgrt")
    assert not loaded & {"torch", "triton", "numpy", "pydantic", "sgrt.engine"}


def test_writing_a_program_loads_no_torch_and_no_compiler() -> None:
    loaded = _modules_after("import sgrt; sgrt.function, sgrt.gen, sgrt.select, sgrt.ScriptedBackend")
    assert not loaded & {"torch", "triton", "numpy", "lark", "sgrt.engine", "sgrt_grammars.compiler"}


def test_the_command_line_loads_no_torch_until_a_command_needs_it() -> None:
    loaded = _modules_after("from sgrt.cli.main import main; main(['--help'])")
    assert not loaded & {"torch", "triton", "sgrt.engine"}


def test_every_public_name_is_found() -> None:
    assert set(_exported()) == {*sgrt._HOMES, "__version__"} == set(dir(sgrt))
    missing = [name for name in _exported() if not hasattr(sgrt, name)]
    assert not missing


@pytest.mark.parametrize("package", [sgrt, sgrt_grammars])
def test_type_checkers_and_the_interpreter_find_the_same_names(package: ModuleType) -> None:
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text("utf-8"))
    checked = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert checked == package._HOMES


def test_names_that_messages_tell_users_to_write_are_there() -> None:
    names = {
        "Call",
        "Regex",
        "JsonSchema",
        "HttpBackend",
        "StructuredOutputsParams",
        "ModelError",
        "ModelNotFound",
    }
    assert names | {"ContextOverflow", "BackendError", "Overloaded"} <= set(_exported())


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(sgrt, "no_such_name")
