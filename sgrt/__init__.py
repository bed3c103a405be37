"""sgrt: a structured-generation and agent runtime.

Names are looked up when they are first used (PEP 562): `import sgrt` loads no torch, and a program
that runs on a server elsewhere never does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sgrt.backend.http import HttpBackend as HttpBackend
    from sgrt.engine.calibration import measure_cost as measure_cost
    from sgrt.engine.engine import Engine as Engine
    from sgrt.errors import ModelError as ModelError
    from sgrt.errors import ModelNotFound as ModelNotFound
    from sgrt.llm import LLM as LLM
    from sgrt.llm import SamplingParams as SamplingParams
    from sgrt.llm import StructuredOutputsParams as StructuredOutputsParams
    from sgrt_frontend.backend import Backend as Backend
    from sgrt_frontend.batch import BatchError as BatchError
    from sgrt_frontend.batch import total_usage as total_usage
    from sgrt_frontend.call import Call as Call
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
    from sgrt_grammars.constraint import Choice as Choice
    from sgrt_grammars.constraint import ContextFree as ContextFree
    from sgrt_grammars.constraint import GrammarDialect as GrammarDialect
    from sgrt_grammars.constraint import JsonObject as JsonObject
    from sgrt_grammars.constraint import JsonSchema as JsonSchema
    from sgrt_grammars.constraint import NumberSpelling as NumberSpelling
    from sgrt_grammars.constraint import PropertyOrder as PropertyOrder
    from sgrt_grammars.constraint import Regex as Regex
    from sgrt_grammars.constraint import RegexDialect as RegexDialect
    from sgrt_grammars.constraint import Whitespace as Whitespace
    from sgrt_grammars.shipped import shipped_grammar as shipped_grammar

__version__ = "0.1.0"

_NAMES = {  # by the module they live in
    "sgrt.backend.http": "HttpBackend",
    "sgrt.engine.calibration": "measure_cost",
    "sgrt.engine.engine": "Engine",
    "sgrt.errors": "ModelError ModelNotFound",
    "sgrt.llm": "LLM SamplingParams StructuredOutputsParams",
    "sgrt_frontend.backend": "Backend",
    "sgrt_frontend.batch": "BatchError total_usage",
    "sgrt_frontend.call": "Call Message Role StopReason Usage",
    "sgrt_frontend.chrome_trace": "save_chrome_trace",
    "sgrt_frontend.errors": "BackendError Cancelled ConstraintError ContextOverflow "
    "DeadlineExceeded InvalidRequest Overloaded ProgramError SgrtError",
    "sgrt_frontend.events": "Delta Done Partial",
    "sgrt_frontend.explain_cache": "MissCause explain_cache",
    "sgrt_frontend.expression": "Var assistant image mark system tool user",
    "sgrt_frontend.gen": "Gen gen retry_until",
    "sgrt_frontend.options": "use_backend",
    "sgrt_frontend.planning.cost": "CostModel",
    "sgrt_frontend.planning.plan": "PlanOptions ProgramPlan",
    "sgrt_frontend.program": "Program function",
    "sgrt_frontend.race": "afirst_of first_of",
    "sgrt_frontend.react": "Answered OutOfSteps react",
    "sgrt_frontend.reasoning": "reasoning",
    "sgrt_frontend.replay": "Divergence Replay replay",
    "sgrt_frontend.scripted": "Answer ScriptedBackend",
    "sgrt_frontend.select": "Normalization select",
    "sgrt_frontend.slot": "Meta",
    "sgrt_frontend.state": "Forks State",
    "sgrt_frontend.tools": "Tool ToolCall Toolbox",
    "sgrt_frontend.trace": "Trace",
    "sgrt_frontend.trace_file": "load_trace save_trace",
    "sgrt_grammars.constraint": "Choice ContextFree GrammarDialect JsonObject JsonSchema NumberSpelling PropertyOrder Regex "
    "RegexDialect Whitespace",
    "sgrt_grammars.shipped": "shipped_grammar",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # checkers read the imports above
    __all__ = sorted((*_HOMES, "__version__"))


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sgrt' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted((*_HOMES, "__version__"))
