"""sgrt: a structured-generation and agent runtime.

Names are looked up when they are first used (PEP 562): `import sgrt` loads no torch, and a program
that runs on a server elsewhere never does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sgrt.engine.calibration import measure_cost as measure_cost
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
    from sgrt_frontend.chrome_trace import save_chrome_trace as save_chrome_trace
    from sgrt_frontend.errors import BackendError as BackendError
    from sgrt_frontend.errors import Cancelled as Cancelled
    from sgrt_frontend.errors import ConstraintError as ConstraintError
    from sgrt_frontend.errors import ContextOverflow as ContextOverflow
    from sgrt_frontend.errors import DeadlineExceeded as DeadlineExceeded
    from sgrt_frontend.errors import InvalidRequest as InvalidRequest
    from sgrt_frontend.errors import Overloaded as Overloaded
    from sgrt_frontend.errors import ProgramError as ProgramError
    from sgrt_frontend.errors import SgrtError as SgrtError
    from sgrt_frontend.events import Delta as Delta
    from sgrt_frontend.events import Done as Done
    from sgrt_frontend.events import Partial as Partial
    from sgrt_frontend.explain_cache import MissCause as MissCause
    from sgrt_frontend.explain_cache import explain_cache as explain_cache
    from sgrt_frontend.expression import Var as Var
    from sgrt_frontend.expression import assistant as assistant
    from sgrt_frontend.expression import image as image
    from sgrt_frontend.expression import mark as mark
    from sgrt_frontend.expression import system as system
    from sgrt_frontend.expression import tool as tool
    from sgrt_frontend.expression import user as user
    from sgrt_frontend.gen import Gen as Gen
    from sgrt_frontend.gen import gen as gen
    from sgrt_frontend.gen import retry_until as retry_until
    from sgrt_frontend.options import use_backend as use_backend
    from sgrt_frontend.planning.cost import CostModel as CostModel
    from sgrt_frontend.planning.plan import PlanOptions as PlanOptions
    from sgrt_frontend.planning.plan import ProgramPlan as ProgramPlan
    from sgrt_frontend.program import Program as Program
    from sgrt_frontend.program import function as function
    from sgrt_frontend.race import afirst_of as afirst_of
    from sgrt_frontend.race import first_of as first_of
    from sgrt_frontend.react import Answered as Answered
    from sgrt_frontend.react import OutOfSteps as OutOfSteps
    from sgrt_frontend.react import react as react
    from sgrt_frontend.reasoning import reasoning as reasoning
    from sgrt_frontend.replay import Divergence as Divergence
    from sgrt_frontend.replay import Replay as Replay
    from sgrt_frontend.replay import replay as replay
    from sgrt_frontend.scripted import Answer as Answer
    from sgrt_frontend.scripted import ScriptedBackend as ScriptedBackend
    from sgrt_frontend.select import Normalization as Normalization
    from sgrt_frontend.select import select as select
    from sgrt_frontend.slot import Meta as Meta
    from sgrt_frontend.state import Forks as Forks
    from sgrt_frontend.state import State as State
    from sgrt_frontend.tools import Tool as Tool
    from sgrt_frontend.tools import Toolbox as Toolbox
    from sgrt_frontend.tools import ToolCall as ToolCall
    from sgrt_frontend.trace import Trace as Trace
    from sgrt_frontend.trace_file import load_trace as load_trace
    from sgrt_frontend.trace_file import save_trace as save_trace
    from sgrt_grammars.shipped import shipped_grammar as shipped_grammar

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
    "save_chrome_trace": "sgrt_frontend.chrome_trace",
    "BackendError": "sgrt_frontend.errors",
    "Cancelled": "sgrt_frontend.errors",
    "ConstraintError": "sgrt_frontend.errors",
    "ContextOverflow": "sgrt_frontend.errors",
    "DeadlineExceeded": "sgrt_frontend.errors",
    "InvalidRequest": "sgrt_frontend.errors",
    "Overloaded": "sgrt_frontend.errors",
    "ProgramError": "sgrt_frontend.errors",
    "SgrtError": "sgrt_frontend.errors",
    "Delta": "sgrt_frontend.events",
    "Done": "sgrt_frontend.events",
    "Partial": "sgrt_frontend.events",
    "MissCause": "sgrt_frontend.explain_cache",
    "explain_cache": "sgrt_frontend.explain_cache",
    "Var": "sgrt_frontend.expression",
    "assistant": "sgrt_frontend.expression",
    "image": "sgrt_frontend.expression",
    "mark": "sgrt_frontend.expression",
    "system": "sgrt_frontend.expression",
    "tool": "sgrt_frontend.expression",
    "user": "sgrt_frontend.expression",
    "Gen": "sgrt_frontend.gen",
    "gen": "sgrt_frontend.gen",
    "retry_until": "sgrt_frontend.gen",
    "use_backend": "sgrt_frontend.options",
    "PlanOptions": "sgrt_frontend.planning.plan",
    "ProgramPlan": "sgrt_frontend.planning.plan",
    "CostModel": "sgrt_frontend.planning.cost",
    "measure_cost": "sgrt.engine.calibration",
    "Program": "sgrt_frontend.program",
    "function": "sgrt_frontend.program",
    "afirst_of": "sgrt_frontend.race",
    "first_of": "sgrt_frontend.race",
    "Answered": "sgrt_frontend.react",
    "OutOfSteps": "sgrt_frontend.react",
    "react": "sgrt_frontend.react",
    "reasoning": "sgrt_frontend.reasoning",
    "Divergence": "sgrt_frontend.replay",
    "Replay": "sgrt_frontend.replay",
    "replay": "sgrt_frontend.replay",
    "Answer": "sgrt_frontend.scripted",
    "ScriptedBackend": "sgrt_frontend.scripted",
    "Normalization": "sgrt_frontend.select",
    "select": "sgrt_frontend.select",
    "Meta": "sgrt_frontend.slot",
    "Forks": "sgrt_frontend.state",
    "State": "sgrt_frontend.state",
    "Tool": "sgrt_frontend.tools",
    "ToolCall": "sgrt_frontend.tools",
    "Toolbox": "sgrt_frontend.tools",
    "Trace": "sgrt_frontend.trace",
    "load_trace": "sgrt_frontend.trace_file",
    "save_trace": "sgrt_frontend.trace_file",
    "shipped_grammar": "sgrt_grammars.shipped",
}

__all__ = [
    "LLM",
    "Answer",
    "Answered",
    "Backend",
    "BackendError",
    "BatchError",
    "Cancelled",
    "ConstraintError",
    "ContextOverflow",
    "CostModel",
    "DeadlineExceeded",
    "Delta",
    "Divergence",
    "Done",
    "Engine",
    "Forks",
    "Gen",
    "InvalidRequest",
    "Message",
    "Meta",
    "MissCause",
    "Normalization",
    "OutOfSteps",
    "Overloaded",
    "Partial",
    "PlanOptions",
    "Program",
    "ProgramError",
    "ProgramPlan",
    "Replay",
    "Role",
    "SamplingParams",
    "ScriptedBackend",
    "SgrtError",
    "State",
    "StopReason",
    "Tool",
    "ToolCall",
    "Toolbox",
    "Trace",
    "Usage",
    "Var",
    "__version__",
    "afirst_of",
    "assistant",
    "explain_cache",
    "first_of",
    "function",
    "gen",
    "image",
    "load_trace",
    "mark",
    "measure_cost",
    "react",
    "reasoning",
    "replay",
    "retry_until",
    "save_chrome_trace",
    "save_trace",
    "select",
    "shipped_grammar",
    "system",
    "tool",
    "total_usage",
    "use_backend",
    "user",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sgrt' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
