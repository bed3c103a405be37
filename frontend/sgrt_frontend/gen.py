"""`gen`: a generated variable, with its type, constraint and sampling."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Generic, TypedDict, TypeVar, overload

from typing_extensions import Unpack

from sgrt_frontend.characters import require_characters
from sgrt_frontend.constraint_check import check_constraint, checked_regex
from sgrt_frontend.errors import ConstraintError, InvalidRequest
from sgrt_frontend.expression import Expression, Var
from sgrt_frontend.numbers import require_count, require_seconds
from sgrt_frontend.sampling import SamplingOptions, sampling_params
from sgrt_frontend.types.shape import STRING, Shape, json_shape, require_type, shape_of, text_shape
from sgrt_grammars.constraint import Choice, Constraint, ContextFree, Regex, StructuralTag
from sgrt_grammars.notation.detect import context_free

T = TypeVar("T")


class ConstraintOptions(TypedDict, total=False):
    """Constraints that leave the value a str; at most one of them, and none beside a type."""

    regex: str
    choice: Sequence[str]
    grammar: str | ContextFree
    structural_tag: StructuralTag
    constraint: Constraint


class CallOptions(SamplingOptions, total=False):
    """Sampling, and how the call is run.

    `timeout_s` cancels the call; `priority` lets it go before others; `heal=True` takes back the
    last token of the constant before it, so that the boundary is spelled as the model would.
    """

    timeout_s: float | None
    priority: int
    heal: bool


class GenOptions(CallOptions, ConstraintOptions, total=False):
    """Every option of a `gen` without a type."""


@dataclass(frozen=True, slots=True, eq=False)
class Gen(Expression, Var[T], Generic[T]):
    """A generation that has not run yet, and the handle of its variable.

    `samples` is 0 for one value, else the number of values in the list.
    """

    variable: str
    shape: Shape[Any]
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    samples: int = 0
    timeout_s: float | None = None
    priority: int = 0
    heal: bool = False
    attempts: int = 1
    accept: Callable[[Any], bool] | None = None
    stop_marks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.variable

    def until(self, accept: Callable[[T], bool], *, attempts: int = 5) -> Gen[T]:
        """Draw again, with another seed, while `accept(value)` is false or the value does not parse.

        Runs inside the state's chain, so it is as lazy as the generation itself. A temperature
        above 0 is needed, or every attempt would be the same.
        """
        require_count(attempts, "attempts")
        return replace(self, accept=accept, attempts=attempts)


@overload
def gen(name: str = ..., *, n: int, **options: Unpack[GenOptions]) -> Gen[list[str]]: ...
@overload
def gen(name: str = ..., **options: Unpack[GenOptions]) -> Gen[str]: ...
@overload
def gen(name: str, type: type[T], *, n: int, **options: Unpack[CallOptions]) -> Gen[list[T]]: ...
@overload
def gen(name: str, type: type[T], **options: Unpack[CallOptions]) -> Gen[T]: ...
@overload
def gen(name: str = ..., *, schema: type[T], n: int, **options: Unpack[CallOptions]) -> Gen[list[T]]: ...
@overload
def gen(name: str = ..., *, schema: type[T], **options: Unpack[CallOptions]) -> Gen[T]: ...
@overload
def gen(name: str, type: object, *, n: int, **options: Unpack[CallOptions]) -> Gen[list[Any]]: ...
@overload
def gen(name: str, type: object, **options: Unpack[CallOptions]) -> Gen[Any]: ...
@overload
def gen(name: str = ..., *, schema: object, n: int, **options: Unpack[CallOptions]) -> Gen[list[Any]]: ...
@overload
def gen(name: str = ..., *, schema: object, **options: Unpack[CallOptions]) -> Gen[Any]: ...
def gen(
    name: str = "",
    type: object = None,
    *,
    schema: object = None,
    n: int | None = None,
    **options: Unpack[GenOptions],
) -> Gen[Any]:
    """Generate a variable.

    Args:
        name: the variable's name; without one, the returned handle alone reaches the value.
        type: the value's type. Bare `int`, `float`, `bool`, `str`, enums and literals are plain text;
            pydantic models, dataclasses, TypedDicts, lists, unions and so on are JSON.
        schema: a type, or a JSON Schema as a mapping or as JSON text; the text is JSON in any case.
        n: draw this many values; the variable is then a list of them, and the state goes on with the first.
        options: `regex`, `choice`, `grammar`, `structural_tag` or `constraint` (one of them, and none beside a
            type), sampling parameters, `timeout_s`, `priority`, `heal`.

    Raises:
        InvalidRequest: an option is wrong; raised here, at the line that wrote it.
    """
    return generation(name, type, schema=schema, n=n, options=options)


def retry_until(generation: Gen[T], accept: Callable[[T], bool], *, attempts: int = 5) -> Gen[T]:
    """The generation, drawn again with another seed until `accept(value)`; see `Gen.until`."""
    return generation.until(accept, attempts=attempts)


def generation(
    name: str, annotation: object, *, schema: object, n: int | None, options: GenOptions
) -> Gen[Any]:
    """Build and check a generation; `gen`, `s.gen` and `s.agen` are typed fronts of it."""
    if not isinstance(name, str):
        raise InvalidRequest(f"name: must be a str, not {name!r}", param="name")
    if n is not None:
        require_count(n, "n")
    shape = _shape(annotation, schema, options)
    sampling = _sampling_of(options)
    _refuse_stops(shape, sampling, options)
    sampling_params(sampling, n=n or 1)
    timeout_s = options.get("timeout_s")
    if timeout_s is not None:
        require_seconds(timeout_s, "timeout_s")
    return Gen(
        variable=name,
        shape=shape,
        sampling=sampling,
        samples=n or 0,
        timeout_s=timeout_s,
        priority=options.get("priority", 0),
        heal=options.get("heal", False),
    )


def _refuse_stops(shape: Shape[Any], sampling: SamplingOptions, options: GenOptions) -> None:
    """A constraint says itself where its text ends; a stop could cut it in the middle."""
    for name in ("stop", "stop_token_ids"):
        if not sampling.get(name):
            continue
        if shape.constraint is not None:
            raise InvalidRequest(
                f"{name}: cannot be combined with a type or constraint, which it would cut short; say in the "
                "constraint where the text ends",
                param=name,
            )
        if options.get("heal"):
            raise InvalidRequest(f"{name}: cannot be combined with heal", param=name)


_CONSTRAINTS = ("regex", "choice", "grammar", "structural_tag", "constraint")
_CALL_OPTIONS = frozenset({"timeout_s", "priority", "heal", *_CONSTRAINTS})


def _sampling_of(options: GenOptions) -> SamplingOptions:
    known = SamplingOptions.__annotations__
    unknown = set(options) - set(known) - _CALL_OPTIONS
    if unknown:
        name = min(unknown)
        raise InvalidRequest(f"{name}: gen has no such option{_meant(name)}", param=name)
    sampling: SamplingOptions = {}
    for key, value in options.items():
        if key in known:
            sampling[key] = value  # type: ignore[literal-required]  # checked against the keys above
    return sampling


_ELSEWHERE = {  # names of other tools, and what they are called here
    "dtype": 'a type, as in gen("x", int)',
    "output_type": 'a type, as in gen("x", int)',
    "response_model": 'a type, as in gen("x", Model)',
    "response_format": "schema",
    "json_schema": "schema",
    "json": "schema",
    "guided_json": "schema",
    "choices": "choice",
    "options": "choice",
    "guided_choice": "choice",
    "pattern": "regex",
    "guided_regex": "regex",
    "ebnf": "grammar",
    "lark": "grammar",
    "gbnf": "grammar",
    "guided_grammar": "grammar",
    "max_new_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "min_new_tokens": "min_tokens",
    "stop_at": "stop",
    "stop_sequences": "stop",
    "stop_strings": "stop",
    "num_return_sequences": "n",
    "num_samples": "n",
    "best_of": "n",
    "do_sample": "temperature",
    "top_logprobs": "logprobs",
    "return_logprob": "logprobs",
    "include_stop_str_in_output": "include_stop",
    "timeout": "timeout_s",
    "deadline_s": "timeout_s",
}


_TOOLS = (
    '; sgrt.Toolbox(tools).gen("call") generates a call of one of them, and '
    "sgrt.react.on(engine).run(question, tools=tools) calls them until the model has an answer"
)
_OF_TOOLS = ("tools", "tool_choice", "functions")


def _meant(name: str) -> str:
    """What somebody who wrote `name` probably looks for."""
    if name in _OF_TOOLS:
        return _TOOLS
    if name in _ELSEWHERE:
        return f"; write {_ELSEWHERE[name]}"
    alike = get_close_matches(name, (*SamplingOptions.__annotations__, *_CALL_OPTIONS, "n", "schema", "type"))
    return f" (did you mean {' or '.join(alike)}?)" if alike else ""


def _shape(annotation: object, schema: object, options: GenOptions) -> Shape[Any]:
    given = [name for name in _CONSTRAINTS if options.get(name) is not None]
    sources = (
        (["type"] if annotation is not None else []) + (["schema"] if schema is not None else []) + given
    )
    if len(sources) > 1:
        raise InvalidRequest(
            f"{sources[-1]}: only one of type, schema, {', '.join(_CONSTRAINTS)} may be given, not {' and '.join(sources)}",
            param=sources[-1],
        )
    if annotation is not None:
        require_type(annotation)
        shape = shape_of(annotation)
    elif schema is not None:
        shape = json_shape(_schema(schema))
    else:
        shape = _text_shape(options) if given else STRING
    constraint = shape.constraint
    # A regex and a choice are known to be good by now.
    if constraint is not None and not isinstance(constraint, Regex | Choice):
        check_constraint(constraint, sources[0])
    return shape


def _schema(schema: object) -> object:
    """A type or a mapping; JSON text, as other tools take it, becomes the mapping that it writes."""
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise InvalidRequest(
                f"schema: {schema!r:.80} is neither a type nor the JSON text of a schema: {error}",
                param="schema",
            ) from None
    if schema is None or isinstance(schema, bool | int | float | str | list | tuple):
        raise InvalidRequest(
            f"schema: {schema!r:.80} is no schema; pass a type, a JSON Schema as a mapping, or its JSON text",
            param="schema",
        )
    return schema


def _text_shape(options: GenOptions) -> Shape[str]:
    if (pattern := options.get("regex")) is not None:
        return text_shape(_regex(pattern))
    if (choice := options.get("choice")) is not None:
        return text_shape(Choice(options=checked_choices(choice)))
    if (grammar := options.get("grammar")) is not None:
        return text_shape(_grammar(grammar))
    constraint = options.get("structural_tag") or options.get("constraint")
    if constraint is None or isinstance(constraint, str | Mapping):
        raise InvalidRequest(
            "constraint: must be a constraint value such as sgrt.Regex(pattern=...)", param="constraint"
        )
    if isinstance(constraint, Regex):
        checked_regex(constraint, "constraint")
    return text_shape(constraint)


def _grammar(grammar: str | ContextFree) -> ContextFree:
    if isinstance(grammar, ContextFree):
        return grammar
    if not isinstance(grammar, str):
        raise InvalidRequest(f"grammar: must be a str or a ContextFree, not {grammar!r}", param="grammar")
    require_characters(grammar, "grammar")
    return context_free(grammar)


def _regex(pattern: str) -> Regex:
    if not isinstance(pattern, str):
        raise InvalidRequest(f"regex: must be a str, not {pattern!r}", param="regex")
    require_characters(pattern, "regex")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        position = (error.pos or 0) if isinstance(error, re.error) else 0
        raise ConstraintError(
            f"regex: {pattern!r} is not a regular expression: {error}{_other_dialect(pattern)}",
            param="regex",
            pointer=f"1:{position}",
        ) from None  # the frames below are those of Python's own parser
    return checked_regex(Regex(pattern=pattern), "regex")


_ECMA_ALONE = re.compile(r"\\[pPk]\{?|\(\?<[A-Za-z_]|\\u\{")


def _other_dialect(pattern: str) -> str:
    """A hint where a pattern has what JavaScript's dialect alone knows."""
    if _ECMA_ALONE.search(pattern) is None:
        return ""
    return '; for JavaScript\'s dialect write constraint=sgrt.Regex(pattern, dialect="ecma")'


def checked_choices(choices: Sequence[str]) -> tuple[str, ...]:
    """The choices as a tuple.

    Raises:
        InvalidRequest: there is none, one is empty or not text, or one appears twice.
    """
    if isinstance(choices, str):
        raise InvalidRequest("choices: must be several texts, not one str", param="choices")
    options = tuple(choices)
    if not options:
        raise InvalidRequest("choices: at least one choice is needed", param="choices")
    for option in options:
        if not isinstance(option, str) or not option:
            raise InvalidRequest(
                f"choices: {option!r} is not a text of at least one character", param="choices"
            )
        require_characters(option, "choices")
    if len(set(options)) != len(options):
        twice = next(option for option in options if options.count(option) > 1)
        raise InvalidRequest(f"choices: {twice!r} appears twice", param="choices")
    return options
