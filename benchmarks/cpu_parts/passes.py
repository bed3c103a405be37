"""How many forward passes an output under a constraint takes for each of its tokens: below 1 where text is forced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cpu_parts.prompts import SCHEMA_TEXT, Prompts, Tokens
from sgrt.engine.engine import Engine
from sgrt_frontend.call import Call, SamplingParams
from sgrt_grammars.constraint import Constraint, JsonSchema, Regex

_WORD = r"[A-Z][A-Za-z ]{1,15}"
# A record whose keys and most of whose values are given: about four of five characters are forced.
RECORD = (
    r'\{\n    "name": "' + _WORD + r'",\n    "house": "(Gryffindor|Slytherin|Ravenclaw|Hufflepuff)",\n'
    r'    "blood status": "(Pure-blood|Half-blood|Muggle-born)",\n'
    r'    "occupation": "(student|teacher|auror|ministry of magic|death eater|order of the phoenix)",\n'
    r'    "wand": \{\n        "wood": "' + _WORD + r'",\n        "core": "' + _WORD + r'",\n'
    r'        "length": [0-9]{1,2}\.[0-9]{0,2}\n    \},\n    "alive": "(Alive|Deceased)",\n'
    r'    "patronus": "' + _WORD + r'",\n    "bogart": "' + _WORD + r'"\n\}'
)
_NAMES = ("Hermione", "Draco", "Luna", "Neville", "Ginny", "Cedric", "Cho", "Sirius")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """What the outputs of one workload took. `passes` counts, for each output, the passes it had a part in."""

    name: str
    tokens: int
    passes: int
    forced: int
    mask_ms: float  # a pass of the engine
    other_ms: float  # of a pass beside masks and the model: planning, drawing, committing

    @property
    def per_token(self) -> float:
        """Forward passes for each output token."""
        return self.passes / self.tokens


def measure(model: str, prompts: Prompts, *, threads: int) -> list[Passes]:
    """The JSON workload and the record, one output at a time and side by side."""
    agents = prompts.shared(32, 77)
    records = [
        prompts.turn("user", prompts.encode(f"Tell me about {name} from Harry Potter.")) + prompts.opener()
        for name in _NAMES * 4
    ]
    found = []
    with Engine(model, threads=threads) as engine:
        loads: list[tuple[str, list[Tokens], Constraint]] = [
            ("json", agents, JsonSchema(text=SCHEMA_TEXT)),
            ("record", records, Regex(pattern=RECORD)),
        ]
        for name, load, constraint in loads:
            found.append(
                _measured(engine, f"{name}, one by one", [[prompt] for prompt in load[:8]], constraint)
            )
            found.append(_measured(engine, f"{name}, 32 at once", [load], constraint))
    return found


def _measured(
    engine: Engine, name: str, groups: Sequence[Sequence[Tokens]], constraint: Constraint
) -> Passes:
    sampling = SamplingParams(max_tokens=256)
    counters = engine.counters
    steps, mask_s, forced = counters.steps, counters.mask_s, counters.forced_tokens
    tokens, accepted = counters.output_tokens, counters.accepted_draft_tokens
    other_s = _other_s(engine)
    for group in groups:
        streams = [
            engine.submit(Call(prompt=tuple(prompt), sampling=sampling, constraint=constraint))
            for prompt in group
        ]
        for stream in streams:
            stream.completions()
    steps = counters.steps - steps
    tokens = counters.output_tokens - tokens
    return Passes(
        name=name,
        tokens=tokens,
        passes=tokens - (counters.accepted_draft_tokens - accepted),
        forced=counters.forced_tokens - forced,
        mask_ms=(counters.mask_s - mask_s) / steps * 1e3,
        other_ms=(_other_s(engine) - other_s) / steps * 1e3,
    )


def _other_s(engine: Engine) -> float:
    counters = engine.counters
    return counters.schedule_s + counters.sample_s + counters.commit_s
