"""sgrt: a structured-generation and agent runtime.

Names are looked up when they are first used (PEP 562): `import sgrt` loads no torch, and a program
that runs on a server elsewhere never does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sgrt.engine.engine import Engine as Engine
    from sgrt.llm import LLM as LLM
    from sgrt.llm import SamplingParams as SamplingParams
    from sgrt_frontend.backend import Backend as Backend
    from sgrt_frontend.batch import BatchError as BatchError
    from sgrt_frontend.batch import total_usage as total_usage
    from sgrt_frontend.call import Message as Message
    from sgrt_frontend.call import Role as Role
    from sgrt_frontend.call import StopReason as StopReason
    from sgrt_frontend.call import Usage as Usage
    from sgrt_frontend.errors import SgrtError as SgrtError
    from sgrt_frontend.expression import assistant as assistant
    from sgrt_frontend.expression import image as image
    from sgrt_frontend.expression import mark as mark
    from sgrt_frontend.expression import system as system
    from sgrt_frontend.expression import tool as tool
    from sgrt_frontend.expression import user as user
    from sgrt_frontend.gen import gen as gen
    from sgrt_frontend.options import use_backend as use_backend
    from sgrt_frontend.program import Program as Program
    from sgrt_frontend.program import function as function
    from sgrt_frontend.scripted import ScriptedBackend as ScriptedBackend
    from sgrt_frontend.select import Normalization as Normalization
    from sgrt_frontend.select import select as select
    from sgrt_frontend.state import State as State

__version__ = "0.1.0"

_HOMES = {
    "Engine": "sgrt.engine.engine",
    "LLM": "sgrt.llm",
    "SamplingParams": "sgrt.llm",
    "Backend": "sgrt_frontend.backend",
    "BatchError": "sgrt_frontend.batch",
    "total_usage": "sgrt_frontend.batch",
    "Message": "sgrt_frontend.call",
    "Role": "sgrt_frontend.call",
    "StopReason": "sgrt_frontend.call",
    "Usage": "sgrt_frontend.call",
    "SgrtError": "sgrt_frontend.errors",
    "assistant": "sgrt_frontend.expression",
    "image": "sgrt_frontend.expression",
    "mark": "sgrt_frontend.expression",
    "system": "sgrt_frontend.expression",
    "tool": "sgrt_frontend.expression",
    "user": "sgrt_frontend.expression",
    "gen": "sgrt_frontend.gen",
    "use_backend": "sgrt_frontend.options",
    "Program": "sgrt_frontend.program",
    "function": "sgrt_frontend.program",
    "ScriptedBackend": "sgrt_frontend.scripted",
    "Normalization": "sgrt_frontend.select",
    "select": "sgrt_frontend.select",
    "State": "sgrt_frontend.state",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sgrt' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
