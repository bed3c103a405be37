"""`FILE:PROGRAM`: a program found in a Python file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

from sgrt.errors import InvalidRequest, SgrtError
from sgrt_frontend.program import Program


def load_program(location: str) -> Program[..., Any]:
    """Import the file and return the program of that name; the name may be left out when there is one program.

    Raises:
        InvalidRequest: there is no such file or program (says which programs there are), or the file cannot be run (says
            where).
    """
    file, _, name = location.partition(":")
    path = Path(file)
    if not path.is_file():
        raise InvalidRequest(f"{file}: there is no such file; write FILE:PROGRAM", param="program")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InvalidRequest(f"{file}: is not a Python file", param="program")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and pydantic look their annotations up
    sys.path.insert(0, str(path.parent.resolve()))  # as `python FILE` has it
    try:
        spec.loader.exec_module(module)
    except SgrtError:
        raise
    except Exception as error:
        raise InvalidRequest(
            f"{_place(error, path)}: {type(error).__name__}: {error}", param="program"
        ) from error
    programs = {key: value for key, value in vars(module).items() if isinstance(value, Program)}
    if not name and len(programs) == 1:
        return next(iter(programs.values()))
    if name not in programs:
        known = ", ".join(programs) or "none"
        raise InvalidRequest(f"{file}: has no program {name!r}; it has {known}", param="program")
    return programs[name]


def _place(error: Exception, path: Path) -> str:
    """FILE:LINE of the user's own code, which is what there is to mend."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f"{path}:{frames[-1].lineno}" if frames else str(path)
