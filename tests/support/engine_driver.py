"""Drives an `EngineCore` step by step, on scripts whose logits depend on every visible token."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sgrt.config import Limits, tail_pages
from sgrt.engine.core import EngineCore
from sgrt.engine.guide import Grammar
from sgrt.engine.job import GenerateJob, ScoreJob
from sgrt.engine.output_text import OutputText
from sgrt.engine.score_tree import PathScores, ScoreTree
from sgrt.engine.scripted import Script, ScriptedRunner
from sgrt.request import Request
from sgrt_frontend.call import CallPlan, Chunk, Finish, SamplingParams, Score

VOCABULARY = 40
END = 39


def hashed(vocabulary: int = VOCABULARY, end_token_id: int = END) -> Script:
    """Logits that are pseudo-random in all tokens so far: one wrong token in a page changes everything."""

    def script(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        digest = hashlib.sha256(array("I", [*prompt, *output]).tobytes()).digest()
        source = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        logits = dict(enumerate((source.standard_normal(vocabulary) * 2.0).tolist()))
        logits[end_token_id] -= 2.0
        return logits

    return script


class LetterDecoder:
    """Token `t` is the letter number `t`; end tokens are no text."""

    def feed(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(ord("A") + token) for token in token_ids)


@dataclass
class Collected:
    """A sink that keeps everything."""

    chunks: list[Chunk] = field(default_factory=list)
    error: Exception | None = None
    is_closed: bool = False

    def push(self, item: Chunk) -> None:
        assert not self.is_closed and self.error is None
        self.chunks.append(item)

    def fail(self, error: Exception) -> None:
        self.error = error

    def close(self) -> None:
        self.is_closed = True

    def tokens(self, index: int = 0) -> list[int]:
        return [token for chunk in self.chunks if chunk.index == index for token in chunk.token_ids]

    def text(self, index: int = 0) -> str:
        return "".join(chunk.text for chunk in self.chunks if chunk.index == index)

    def finish(self, index: int = 0) -> Finish:
        (found,) = [
            chunk.finish for chunk in self.chunks if chunk.index == index and chunk.finish is not None
        ]
        return found


@dataclass
class CollectedScores:
    """A sink for the scores of a tree."""

    tree: ScoreTree
    prefix_tokens: int
    found: dict[int, PathScores] = field(default_factory=dict)
    error: Exception | None = None
    is_closed: bool = False

    def push(self, item: tuple[int, PathScores]) -> None:
        assert not self.is_closed and self.error is None
        self.found[item[0]] = item[1]

    def fail(self, error: Exception) -> None:
        self.error = error

    def close(self) -> None:
        self.is_closed = True

    @property
    def scores(self) -> list[Score]:
        assert self.is_closed
        return self.tree.scores(self.prefix_tokens, self.found)


class Driver:
    """An engine core on a script, with integrity checks after every step."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        num_pages: int = 64,
        page_tokens: int = 4,
        context_tokens: int = 200,
        max_running: int = 8,
        step_tokens: int = 32,
        max_draft_tokens: int = 8,
        seals_pages: bool = False,
        vocabulary: int = VOCABULARY,
        sampled_tokens: int | None = None,
    ) -> None:
        self.limits = Limits(
            context_tokens=context_tokens,
            num_pages=num_pages,
            page_tokens=page_tokens,
            max_running=max_running,
            step_tokens=step_tokens,
            max_draft_tokens=max_draft_tokens,
            num_tail_pages=tail_pages(max_running, step_tokens, page_tokens) if seals_pages else 0,
        )
        self.runner = ScriptedRunner(
            script or hashed(vocabulary),
            vocabulary_tokens=vocabulary,
            num_pages=num_pages + self.limits.num_tail_pages,
            page_tokens=page_tokens,
        )
        self.core = EngineCore(
            self.runner,
            self.limits,
            end_token_ids=(END,),
            sampled_tokens=sampled_tokens,
            checks_integrity=True,
        )
        self.now_s = 0.0
        self._next_id = 0

    def submit(
        self,
        prompt: Sequence[int],
        *,
        grammar: Grammar | None = None,
        priority: int = 0,
        deadline_s: float | None = None,
        salt: str = "",
        max_tokens: int = 8,
        seed: int = 0,
        **sampling: object,
    ) -> tuple[GenerateJob, Collected]:
        sink = Collected()
        params = SamplingParams(max_tokens=max_tokens, **sampling)  # type: ignore[arg-type]  # test keywords
        request = Request(
            id=self._next_id,
            prompt=tuple(prompt),
            sampling=params,
            max_tokens=max_tokens,
            seed=seed,
            priority=priority,
            arrival_s=self.now_s,
            deadline_s=deadline_s,
            cache_salt=salt,
        )
        self._next_id += 1
        job = GenerateJob(
            request=request,
            make_text=lambda: OutputText(
                LetterDecoder(), stops=params.stop, includes_stop=params.include_stop
            ),
            sink=sink,
        )
        self.core.announce(job)
        self.core.submit(job, grammar)
        return job, sink

    def score(
        self, prefix: Sequence[int], continuations: Sequence[Sequence[int]], *, plan: CallPlan | None = None
    ) -> CollectedScores:
        tree = ScoreTree(continuations)
        sink = CollectedScores(tree=tree, prefix_tokens=len(prefix))
        requests = tuple(
            Request(
                id=place,
                prompt=(*prefix, *path.tokens),
                max_tokens=0,
                score_from=len(prefix) + path.first_row,
                score_prefix=len(prefix),
                score_targets=path.targets,
                plan=plan,
                plan_parts=len(tree.paths),
            )
            for place, path in enumerate(tree.paths)
        )
        job = ScoreJob(requests=requests, sink=sink)
        self.core.announce(job)
        self.core.submit(job)
        return sink

    def step(self) -> bool:
        self.now_s += 1.0
        return self.core.step(self.now_s)

    def run(self, max_steps: int = 5000) -> int:
        """Steps until nothing is left; returns how many."""
        for count in range(max_steps):
            if not self.core.has_work:
                return count
            self.step()
        raise AssertionError("the engine does not come to an end")

    def generate(self, prompt: Sequence[int], **options: object) -> Collected:
        _, sink = self.submit(prompt, **options)  # type: ignore[arg-type]  # test keywords
        self.run()
        return sink


def alone(prompt: Sequence[int], **options: object) -> list[list[int]]:
    """The tokens of every output of a request that has an engine of its own, large and unchunked."""
    driver = Driver(num_pages=400, page_tokens=4, step_tokens=512, max_draft_tokens=0)
    sink = driver.generate(prompt, **options)
    count = int(str(options.get("n", 1)))
    return [sink.tokens(index) for index in range(count)]
