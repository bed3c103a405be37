"""One step of the engine: plan, run, fill masks meanwhile, draw, commit. No threads here; `EngineLoop` drives it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sgrt.config import Limits
from sgrt.engine.drawing import Drawing, Member
from sgrt.engine.generation import Drawn, Generation
from sgrt.engine.greedy import GreedyRunner
from sgrt.engine.guide import Grammar, Guide, Spellings, TokenMasks
from sgrt.engine.job import GenerateJob, Job, ScoreJob
from sgrt.engine.job_failure import JobFailure, guarded
from sgrt.engine.runner import Runner
from sgrt.engine.sampling import full_mask, mask_of, seed_of_output
from sgrt.engine.scheduler import Scheduler, Step, Work
from sgrt.engine.scoring import Scoring
from sgrt.engine.sequence import Sequence
from sgrt.engine.stats import EngineStats
from sgrt.errors import BackendError
from sgrt.request import Request
from sgrt_frontend.call import Origin, StopReason

# With few sequences a forward pass reads weights most of the time, and the rows of wrong drafts cost little; with many
# it computes, and a wrong draft costs as much as a right one saves.
_EAGER_DRAFT_SEQUENCES = 4


class EngineCore:
    """All jobs in progress, their sequences and the runner. One thread drives it.

    `sampled_tokens` is how many of the model's logits stand for tokens; columns beyond are padding and are
    never drawn.
    """

    def __init__(
        self,
        runner: Runner,
        limits: Limits,
        *,
        end_token_ids: Iterable[int],
        sampled_tokens: int | None = None,
        checks_integrity: bool = False,
    ) -> None:
        self.stats = EngineStats(pages_total=limits.num_pages, tail_pages_total=limits.num_tail_pages)
        self.scheduler = Scheduler(limits, self.stats)
        self._runner = runner
        self._largest = runner.largest if isinstance(runner, GreedyRunner) else None
        self._limits = limits
        self._end_token_ids = frozenset(end_token_ids)
        self._mask_words = -(-runner.vocabulary_tokens // 32)
        self._drawing = Drawing(
            sampled_tokens=sampled_tokens or runner.vocabulary_tokens, mask_words=self._mask_words
        )
        self._checks_integrity = checks_integrity
        self._members: dict[Sequence, Member] = {}
        self._jobs: dict[Job, list[Member]] = {}
        self._job_of: dict[Sequence, Job] = {}
        self._measured_changes = 0  # of pages, when sizes were measured last
        self._serial = 0
        self._spellings = Spellings()

    @property
    def has_work(self) -> bool:
        """Whether any job is in progress."""
        return bool(self._jobs)

    @property
    def has_sequences(self) -> bool:
        """Whether a step would compute anything."""
        return bool(self._members)

    def next_deadline_s(self) -> float | None:
        """The earliest deadline of the jobs in progress."""
        deadlines = [d for job in self._jobs if (d := _deadline_of(job)) is not None]
        return min(deadlines, default=None)

    def announce(self, job: Job) -> None:
        """Take in a job, whose requests fit context and pool, and which is still being prepared."""
        self._jobs[job] = []
        self._measure()

    def submit(self, job: Job, grammar: Grammar | None = None) -> None:
        """Start an announced job; one that is over by now stays so."""
        members = self._jobs.get(job)
        if members is None:
            return
        try:
            self._start(job, members, grammar)
        except JobFailure as failure:
            self.fail(job, failure.error)
        self._measure()

    def cancel(self, job: Job, reason: StopReason = StopReason.CANCELLED) -> None:
        """End a job's outputs now; a job that is over already stays as it is. Scores are nothing unless complete."""
        if job not in self._jobs:
            return
        if isinstance(job, ScoreJob):
            self.fail(job, BackendError("the scores were cancelled"))
            return
        if not self._jobs[job]:
            self.submit(job)  # still being prepared: gets its outputs only to end them
        for member in list(self._jobs.get(job, ())):
            assert isinstance(member, Generation), "only scoring jobs have other members"
            self._end_output(job, member, reason)
        self._measure()

    def cancel_output(self, job: GenerateJob, index: int) -> None:
        """End one output of a job now; the others go on."""
        for member in list(self._jobs.get(job, ())):
            if isinstance(member, Generation) and member.sequence.index == index:
                self._end_output(job, member, StopReason.CANCELLED)
        self._measure()

    def cancel_all(self) -> None:
        """End every job's outputs."""
        for job in list(self._jobs):
            self.cancel(job)

    def fail(self, job: Job, error: Exception) -> None:
        """End a job with an error."""
        if job in self._jobs:
            for member in list(self._jobs[job]):
                self._forget(job, member)
            self._jobs.pop(job, None)
            job.sink.fail(error)
            self._measure()

    def fail_all(self, error: Exception) -> None:
        """End every job with an error, touching nothing else: the state may be inconsistent."""
        for job in list(self._jobs):
            del self._jobs[job]
            job.sink.fail(error)

    def step(self, now_s: float) -> bool:
        """Do one step; False when there was nothing to run. `now_s` is compared with deadlines."""
        self._expire(now_s)
        started = time.perf_counter()
        step = self.scheduler.plan()
        if not step.works:
            self._measure()
            return False
        self._note_starts(step, now_s)
        plan = step.plan()
        if self._moved(step):
            self._measure()
        finished = self.stats.finished
        planned = time.perf_counter()
        logits = self._runner.run(plan)  # a GPU computes them while masks are filled
        ran = time.perf_counter()
        masks = self._fill_masks(step)
        filled = time.perf_counter()
        self.scheduler.commit(step)
        drawn = self._drawing.draw(step.works, self._members, logits, masks, self._largest)
        sampled = time.perf_counter()
        self._commit(step, drawn)
        self.stats.steps += 1
        self.stats.schedule_s += planned - started
        self.stats.forward_s += ran - planned
        self.stats.mask_s += filled - ran
        self.stats.sample_s += sampled - filled
        self.stats.commit_s += time.perf_counter() - sampled
        if self.stats.finished != finished:
            self._measure()
        if self._checks_integrity:
            self.scheduler.check_integrity()
        return True

    # -- jobs --------------------------------------------------------------------------------------

    def _start(self, job: Job, members: list[Member], grammar: Grammar | None) -> None:
        with guarded():
            members += self._new_members(job, grammar)
        for member in members:
            self._members[member.sequence] = member
            self._job_of[member.sequence] = job
            self.scheduler.submit(member.sequence)
        for member in list(members):
            if isinstance(member, Generation):
                self._after_tokens(member)

    def _new_members(self, job: Job, grammar: Grammar | None) -> list[Member]:
        if isinstance(job, ScoreJob):
            return [Scoring(self._sequence(request, place)) for place, request in enumerate(job.requests)]
        return [self._generation(job, index, grammar) for index in range(job.request.sampling.n)]

    def _sequence(self, request: Request, index: int) -> Sequence:
        self._serial += 1
        rank = request.arrival_s - request.priority * self._limits.aging_s
        if request.plan is not None:  # what most waits for goes first, as far as one level of priority
            rank -= min(request.plan.path_s, self._limits.aging_s)
        return Sequence(request=request, index=index, rank=(rank, self._serial))

    def _generation(self, job: GenerateJob, index: int, grammar: Grammar | None) -> Generation:
        allowed = job.request.sampling.allowed_token_ids
        guide = None if grammar is None else Guide(grammar.matcher(), self._end_token_ids, self._spellings)
        return Generation(
            self._sequence(job.request, index),
            job.make_text(),
            seed=seed_of_output(job.request.seed, index),
            end_token_ids=self._end_token_ids,
            guide=guide,
            allowed=mask_of(allowed, self._mask_words) if allowed else None,
        )

    def _expire(self, now_s: float) -> None:
        late = [job for job in self._jobs if (d := _deadline_of(job)) is not None and d <= now_s]
        for job in late:
            self.cancel(job, StopReason.DEADLINE)

    def _end_output(self, job: GenerateJob, member: Generation, reason: StopReason) -> None:
        try:
            _end(member, reason)
        except JobFailure as failure:
            self.fail(job, failure.error)
        else:
            self._deliver(job, member)

    def _deliver(self, job: GenerateJob | ScoreJob, generation: Generation) -> None:
        assert isinstance(job, GenerateJob), "only generating jobs have chunks"
        chunk = generation.chunk()
        if chunk is not None:
            job.sink.push(chunk)
        if generation.finish is not None:
            self._drop(job, generation)

    def _drop(self, job: Job, member: Member) -> None:
        self.stats.finished += 1
        self._forget(job, member)
        if job not in self._jobs:
            job.sink.close()

    def _forget(self, job: Job, member: Member) -> None:
        self.scheduler.finish(member.sequence)
        del self._members[member.sequence]
        del self._job_of[member.sequence]
        members = self._jobs[job]
        members.remove(member)
        if not members:
            del self._jobs[job]
            for request in job.requests if isinstance(job, ScoreJob) else (job.request,):
                if request.is_private:
                    self.scheduler.tree.forget(request.cache_salt)

    def _measure(self) -> None:
        self._measured_changes = self.scheduler.allocator.num_changes
        self.stats.queue_length = self.scheduler.num_waiting
        self.stats.preparing = sum(not members for members in self._jobs.values())
        self.stats.running = self.scheduler.num_running
        self._measure_pages()

    def _moved(self, step: Step) -> bool:
        """Whether sizes may be others than last measured; most steps of decoding sequences change none."""
        return (
            self._measured_changes != self.scheduler.allocator.num_changes
            or self.stats.running != self.scheduler.num_running
            or bool(step.admitted)
            or step.works[-1].is_prefill  # prompts come last
        )

    def _measure_pages(self) -> None:
        stats, scheduler = self.stats, self.scheduler
        stats.pages_used = stats.pages_total - scheduler.allocator.num_free
        stats.tail_pages_used = stats.tail_pages_total - scheduler.allocator.num_free_tails
        stats.pages_cached = scheduler.tree.num_pages
        in_use = stats.pages_used - scheduler.tree.num_evictable_pages
        stats.pages_needed = in_use + scheduler.num_promised_pages
        stats.peak_pages_needed = max(stats.peak_pages_needed, stats.pages_needed)

    def _note_starts(self, step: Step, now_s: float) -> None:
        for sequence in step.admitted:
            member = self._members.get(sequence)
            if isinstance(member, Generation) and member.started_s is None:
                member.started_s = now_s

    # -- masks -------------------------------------------------------------------------------------

    def _fill_masks(self, step: Step) -> dict[Sequence, TokenMasks]:
        """Mask rows of every sequence that has some; one row per draft the grammar takes, and one more."""
        masks: dict[Sequence, TokenMasks] = {}
        for work in step.works:
            member = self._members.get(work.sequence)
            if work.num_rows == 0 or not isinstance(member, Generation) or member.is_free:
                continue
            if member.guide is not None:
                try:
                    masks[work.sequence] = self._guided_masks(member, member.guide, work)
                except JobFailure as failure:
                    self.fail(self._job_of[work.sequence], failure.error)
            elif (row := self._free_mask(member)) is not None:
                masks[work.sequence] = row[None]
        return masks

    def _guided_masks(self, generation: Generation, guide: Guide, work: Work) -> TokenMasks:
        drafts = generation.sequence.drafts[: work.num_drafts]
        rows = np.zeros((len(drafts) + 1, self._mask_words), np.uint32)
        may_end_from = generation.sampling.min_tokens - generation.sequence.num_output_tokens
        with guarded():
            taken = guide.fill(rows, drafts, remaining=generation.remaining, may_end_from=may_end_from)
        return rows[: taken + 1]

    def _free_mask(self, generation: Generation) -> NDArray[np.uint32] | None:
        """Of free text: the tokens it was confined to, and no end before it may."""
        if generation.may_end or not generation.ending_ids:
            return generation.allowed
        row = full_mask(self._mask_words) if generation.allowed is None else generation.allowed.copy()
        for token in generation.ending_ids:
            row[token // 32] &= np.uint32(~(1 << token % 32) & 0xFFFF_FFFF)
        return row

    # -- committing --------------------------------------------------------------------------------

    def _commit(self, step: Step, drawn: dict[Sequence, list[Drawn]]) -> None:
        for work in step.works:
            member = self._members.get(work.sequence)
            try:
                if isinstance(member, Scoring):
                    self._commit_scoring(member)
                elif isinstance(member, Generation):
                    self._commit_generation(member, work, drawn.get(work.sequence, []))
            except JobFailure as failure:
                self.fail(self._job_of[work.sequence], failure.error)

    def _commit_scoring(self, scoring: Scoring) -> None:
        if scoring.is_complete:
            job = self._job_of[scoring.sequence]
            assert isinstance(job, ScoreJob), "only scoring jobs have scores"
            scores = scoring.scores()
            if any(math.isnan(logprob) for row in scores.rows for logprob in row):
                raise self._no_numbers()
            job.sink.push((scoring.sequence.index, scores))
            self._drop(job, scoring)

    def _commit_generation(self, generation: Generation, work: Work, drawn: list[Drawn]) -> None:
        sequence = generation.sequence
        if drawn:
            with guarded():
                accepted = self._take_drawn(generation, sequence.drafts[: work.num_drafts], drawn)
            self.scheduler.settle(sequence, accepted)
            self.stats.draft_tokens += work.num_drafts
            self.stats.accepted_draft_tokens += accepted
            self._after_tokens(generation)
        elif generation.remaining == 0 and sequence.num_remaining == 0:
            _end(generation, StopReason.LENGTH)
            self._deliver(self._job_of[sequence], generation)

    def _take_drawn(self, generation: Generation, drafts: list[int], drawn: list[Drawn]) -> int:
        """Take drawn tokens while they equal the drafts, and the first that does not; returns the equal ones."""
        guide = generation.guide
        accepted = 0
        for token in drawn:
            if token.token < 0:
                raise self._no_numbers()
            is_draft = (
                accepted < len(drafts) and accepted < len(drawn) - 1 and token.token == drafts[accepted]
            )
            if guide is not None:
                guide.learn(accepted, token.token)
                guide.was_narrowed |= token.is_narrowed
                if not is_draft:
                    guide.settle(accepted)
            if generation.take(token):
                self.stats.output_tokens += 1
                self.stats.forced_tokens += token.origin is Origin.FORCED
            if not is_draft:
                if guide is not None and generation.finish is None:
                    guide.advance(token.token)
                break
            accepted += 1
        return accepted

    def _no_numbers(self) -> JobFailure:
        self.stats.corrupted += 1
        return JobFailure(BackendError("the model's logits are not numbers"))

    def _after_tokens(self, generation: Generation) -> None:
        """End what is complete, propose forced text for the next step, and deliver what was added."""
        sequence = generation.sequence
        sequence.drafts = []
        if generation.guide is not None:
            with guarded():
                sequence.drafts = self._next_drafts(generation, generation.guide)
        self._deliver(self._job_of[sequence], generation)

    def _next_drafts(self, generation: Generation, guide: Guide) -> list[int]:
        """Forced text for the next step; ends the output where its constraint does."""
        generation.close_guided()
        if generation.finish is not None:
            return []
        limit = min(self._limits.max_draft_tokens, generation.remaining - 1)
        return guide.drafts(limit, is_sure=self.scheduler.num_running > _EAGER_DRAFT_SEQUENCES)


def _end(generation: Generation, reason: StopReason) -> None:
    with guarded():
        generation.end(reason)


def _deadline_of(job: Job) -> float | None:
    return job.request.deadline_s if isinstance(job, GenerateJob) else None
