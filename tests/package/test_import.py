"""`import sgrt` stays light, and every public name leads somewhere."""

from __future__ import annotations

import os
import subprocess
import sys

import sgrt


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
    assert set(sgrt.__all__) == {*sgrt._HOMES, "__version__"}
    missing = [name for name in sgrt.__all__ if not hasattr(sgrt, name)]
    assert not missing


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(sgrt, "no_such_name")
