"""The scheduler: which sequences compute how many tokens next, and in which pages.

Decoding sequences go first, one token (and its drafts) each; what is left of the step's tokens, a page at
least, goes to prompts, in chunks that end at page borders. A waiting sequence is admitted when the pages for
its prompt are at hand; one of higher priority takes the place and the pages of those that rank last. When pages run
out, unlocked cache goes first, then prefixes that are kept for later, then the sequence that ranks last is
preempted: its pages go to the tree, and it resumes from there with the same tokens.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from sgrt.cache.prefix_handle import PrefixHandle
from sgrt.cache.radix import common_prefix_tokens
from sgrt.config import Limits
from sgrt.engine.page_book import PageBook
from sgrt.engine.plan import PageCopy, Plan, Span
from sgrt.engine.sequence import Awaited, Sequence, SequenceStatus
from sgrt.engine.stats import EngineStats

# Waiting for a neighbour to compute a shared prefix costs a step or more; fewer tokens are not worth it.
_MIN_AWAITED_TOKENS = 8
# A scored token needs a whole row of logits; of a wide vocabulary a few hundred rows are many megabytes.
_MAX_SCORED_TOKENS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One sequence's part of a step: the tokens from `start` on, the last `num_drafts` of them drafts."""

    sequence: Sequence
    start: int
    num_tokens: int
    num_drafts: int
    num_rows: int

    @property
    def is_prefill(self) -> bool:
        """Whether it computes more than the next token and its drafts."""
        return self.num_tokens - self.num_drafts > 1


@dataclass(slots=True)
class Step:
    """What the next forward pass does. `copied` are prefixes whose partial page the pass copies, `admitted` are the
    sequences that begin or resume with it.
    """

    works: list[Work] = field(default_factory=list)
    copies: list[PageCopy] = field(default_factory=list)
    copied: list[PrefixHandle] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    budget: int = 0

    def plan(self) -> Plan:
        """The runner's view."""
        spans = []
        for work in self.works:
            sequence, end = work.sequence, work.start + work.num_tokens - work.num_drafts
            tokens = sequence.tokens[work.start : end]
            if work.num_drafts:
                tokens += sequence.drafts[: work.num_drafts]
            spans.append(
                Span(
                    tokens=tokens,
                    start=work.start,
                    pages=sequence.pages,
                    own_pages=sequence.tails,
                    logits_from=work.num_tokens - work.num_rows,
                    prompt_tokens=sequence.num_prompt_tokens,
                )
            )
        return Plan(spans=tuple(spans), copies=tuple(self.copies))


class Scheduler:
    """Owner of all sequences, their pages and the radix tree. Not thread-safe: one thread drives it."""

    def __init__(self, limits: Limits, stats: EngineStats) -> None:
        self._limits = limits
        self._stats = stats
        self._book = PageBook(limits, stats)
        self.allocator = self._book.allocator
        self.tree = self._book.tree
        self._waiting: list[Sequence] = []  # both sorted by rank
        self._running: list[Sequence] = []

    @property
    def num_waiting(self) -> int:
        """Sequences not admitted yet, or preempted."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Sequences that hold pages."""
        return len(self._running)

    @property
    def num_promised_pages(self) -> int:
        """Pages that prompts which have begun will still fill; nobody is admitted at their cost."""
        page_tokens = self._limits.page_tokens
        return sum(
            max(0, -(-sequence.num_wanted // page_tokens) - len(sequence.pages))
            for sequence in self._running
            if sequence.num_remaining > 1
        )

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._waiting or self._running)

    def submit(self, sequence: Sequence) -> None:
        """Queue a new sequence. It fits the pool when alone: the caller has checked."""
        insort(self._waiting, sequence, key=_rank)

    def plan(self) -> Step:
        """Decide the next step; allocates its pages, evicting and preempting as needed."""
        step = Step(budget=self._limits.step_tokens)
        if self._waiting:
            self._make_way()
        decoding = [sequence for sequence in self._running if sequence.num_remaining <= 1]
        has_prompts = len(decoding) < len(self._running)
        kept = self._kept_for_prompts(has_prompts=has_prompts)
        for place, sequence in enumerate(decoding):
            if sequence.status is SequenceStatus.RUNNING:
                self._schedule_decode(step, sequence, num_kept=len(decoding) - place - 1 + kept)
        if has_prompts:
            self._schedule_prefills(step)
        if self._waiting:
            self._admit(step)
        return step

    def commit(self, step: Step) -> None:
        """Record that the step's tokens are computed (drafts are settled by `settle`)."""
        for handle in step.copied:
            handle.release_partial()
        for work in step.works:
            sequence = work.sequence
            if sequence.status is not SequenceStatus.RUNNING:
                continue  # failed between plan and commit; what the pass wrote lies in free pages
            sequence.num_computed = work.start + work.num_tokens - work.num_drafts
            prompt_end = min(sequence.num_computed, sequence.request.prefix_tokens)
            self._stats.computed_prompt_tokens += max(0, prompt_end - work.start)
            self._book.keep_up(sequence, has_drafts=work.num_drafts > 0)
            if work.is_prefill:
                self._book.remember(sequence)
        self._stats.note_forward(self._limits.step_tokens - step.budget)

    def settle(self, sequence: Sequence, accepted_drafts: int) -> None:
        """Of the drafts computed in the last step the first `accepted_drafts` are right and were appended."""
        sequence.num_computed += accepted_drafts
        self._book.keep_up(sequence, has_drafts=False)

    def finish(self, sequence: Sequence) -> None:
        """Take a sequence out, in whatever state it is. What it computed stays in the tree."""
        if sequence.status is SequenceStatus.RUNNING:
            self._running.remove(sequence)
            self._release(sequence, is_over=True)
        elif sequence.status is SequenceStatus.WAITING:
            self._waiting.remove(sequence)
        sequence.status = SequenceStatus.FINISHED

    def flush_cache(self) -> int:
        """Evict everything no running sequence uses; returns the pages freed."""
        return self._book.flush()

    def check_integrity(self) -> None:
        """Assert that every page is accounted for by the tree, the sequences and their handles."""
        self._book.check_integrity(self._running)
        for sequence in self._waiting:
            assert not sequence.pages and not sequence.tails and sequence.handle is None, (
                "a waiting sequence holds pages"
            )
        assert self._waiting == sorted(self._waiting, key=_rank), "the queue is out of order"
        assert self._running == sorted(self._running, key=_rank), "running sequences are out of order"

    # -- running sequences -------------------------------------------------------------------------

    def _kept_for_prompts(self, *, has_prompts: bool) -> int:
        """Tokens of the step that drafts leave alone: a page for a prompt that runs or could be admitted."""
        may_admit = bool(self._waiting) and len(self._running) < self._limits.max_running
        return self._limits.page_tokens if has_prompts or may_admit else 0

    def _schedule_decode(self, step: Step, sequence: Sequence, *, num_kept: int) -> None:
        """The next token and the drafts that fit; `num_kept` tokens of the step are for those behind."""
        room = step.budget - num_kept - 1
        drafts = min(len(sequence.drafts), max(0, room), self._limits.max_draft_tokens)
        end = sequence.num_computed + 1
        if drafts and not self._book.grow(sequence, end + drafts):
            drafts = 0
        if drafts or self._book.grow(sequence, end) or self._grow_by_preempting(sequence, end):
            self._add(step, sequence, 1 + drafts, drafts)

    def _schedule_prefills(self, step: Step) -> None:
        prefilling = [sequence for sequence in self._running if sequence.num_remaining > 1]
        if prefilling:
            self._admit(step, above=prefilling[-1])
        for sequence in prefilling:
            self._schedule_prefill(step, sequence, may_preempt=not step.works)

    def _schedule_prefill(self, step: Step, sequence: Sequence, *, may_preempt: bool) -> None:
        if sequence.status is not SequenceStatus.RUNNING:
            return
        count = self._chunk(sequence, step.budget)
        end = sequence.num_computed + count
        if count == 0:
            return
        if self._book.grow(sequence, end) or (may_preempt and self._grow_by_preempting(sequence, end)):
            self._add(step, sequence, count + self._final_drafts(step, sequence, count), None)

    def _final_drafts(self, step: Step, sequence: Sequence, count: int) -> int:
        """Drafts that can ride along with the last chunk of a prompt."""
        if sequence.num_computed + count < sequence.num_wanted:
            return 0
        drafts = min(len(sequence.drafts), step.budget - count, self._limits.max_draft_tokens)
        end = sequence.num_computed + count
        return drafts if drafts > 0 and self._book.grow(sequence, end + drafts) else 0

    def _chunk(self, sequence: Sequence, budget: int) -> int:
        """How many prompt tokens to compute: all that remain, or up to the last page border that fits."""
        if sequence.request.score_from is not None:
            unscored = max(0, sequence.request.score_from - 1 - sequence.num_computed)
            budget = min(budget, unscored + max(_MAX_SCORED_TOKENS, self._limits.page_tokens))
        if sequence.num_remaining <= budget:
            return self._up_to_shared(sequence, sequence.num_remaining)
        page_tokens = self._limits.page_tokens
        border = (sequence.num_computed + budget) // page_tokens * page_tokens
        return self._up_to_shared(sequence, max(0, border - sequence.num_computed))

    def _up_to_shared(self, sequence: Sequence, count: int) -> int:
        """Of a chunk of `count` tokens those up to where the next beginning ends that the plan keeps inside a page."""
        start = sequence.num_computed
        # A single token more would be decoded like one that was drawn, and its page not be remembered.
        ends = [end for end in self._kept_ends(sequence) if start + 1 < end < start + count]
        return min(ends, default=start + count) - start

    def _kept_ends(self, sequence: Sequence) -> list[int]:
        """Where beginnings that the plan keeps for others end inside pages, if pages are sealed.

        A chunk ends there, and its exact page stays in the tree for them to copy: inside a sealed page nothing can be.
        """
        plan = sequence.request.plan
        if plan is None or not self._limits.num_tail_pages:
            return []
        ends = [share.num_tokens for share in plan.shares]
        return [end for end in ends if end is not None and end % self._limits.page_tokens]

    def _add(self, step: Step, sequence: Sequence, num_tokens: int, num_drafts: int | None) -> None:
        start = sequence.num_computed
        drafts = max(0, start + num_tokens - sequence.num_wanted) if num_drafts is None else num_drafts
        rows = num_tokens - sequence.logits_from(start, num_tokens, drafts)
        step.works.append(
            Work(sequence=sequence, start=start, num_tokens=num_tokens, num_drafts=drafts, num_rows=rows)
        )
        step.budget -= num_tokens

    # -- pages -------------------------------------------------------------------------------------

    def _grow_by_preempting(self, sequence: Sequence, end: int) -> bool:
        """As `PageBook.grow`, preempting those that rank last. False when `sequence` itself had to yield."""
        while not self._book.grow(sequence, end):
            victim = self._running[-1]
            assert victim is not sequence or len(self._running) > 1, "a sequence does not fit the pool alone"
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        self._release(sequence)
        sequence.status = SequenceStatus.WAITING
        insort(self._waiting, sequence, key=_rank)
        self._stats.preemptions += 1

    def _release(self, sequence: Sequence, *, is_over: bool = False) -> None:
        """Leave what is computed in the tree and give the pages back."""
        self._book.remember(sequence)
        self._book.give_back(sequence, is_over=is_over)

    # -- admission ---------------------------------------------------------------------------------

    def _make_way(self) -> None:
        """Preempt sequences of lower priority for those that wait above them and find no place or no pages."""
        places = pages = 0
        for sequence in list(self._waiting):
            if not self._running or not _is_above(sequence, self._running[-1]):
                return
            if self._awaits_prefix(sequence):
                continue
            places += 1
            pages += self._new_pages(sequence)
            while len(self._running) + places > self._limits.max_running or not self._find_room(pages):
                if not self._running or not _is_above(sequence, self._running[-1]):
                    return
                self._preempt(self._running[-1])

    def _admit(self, step: Step, above: Sequence | None = None) -> None:
        """Start waiting sequences in their order; with `above` those alone that have a higher priority than it."""
        place = 0
        while (
            place < len(self._waiting)
            and len(self._running) < self._limits.max_running
            and step.budget >= self._limits.page_tokens
        ):
            sequence = self._waiting[place]
            if above is not None and not _is_above(sequence, above):
                return
            if self._awaits_prefix(sequence):
                place += 1
            elif self._is_kept_out(sequence, place) or not self._start(step, sequence):
                return
            else:
                del self._waiting[place]

    def _is_kept_out(self, sequence: Sequence, num_awaiting: int) -> bool:
        """Whether the places left are for those of higher priority ahead, which only wait for a prefix."""
        ahead = [other for other in self._waiting[:num_awaiting] if _is_above(other, sequence)]
        return len(self._running) + len(ahead) >= self._limits.max_running

    def _awaits_prefix(self, sequence: Sequence) -> bool:
        """Whether a running sequence is computing a prefix of this one that the tree does not have yet."""
        if sequence.awaited is not None and sequence.awaited.is_coming:
            return True
        sequence.awaited = None
        computing = [
            other
            for other in self._running
            if other.num_remaining > 1 and other.request.cache_salt == sequence.request.cache_salt
        ]
        if not computing:
            return False
        key = sequence.key(sequence.num_reusable)
        worthwhile = self.tree.peek(key, salt=sequence.request.cache_salt) + _MIN_AWAITED_TOKENS
        for other in computing:
            shared = self._reusable(common_prefix_tokens(key, other.key(other.num_wanted)), other)
            if shared >= worthwhile and shared > other.num_computed:
                sequence.awaited = Awaited(sequence=other, num_tokens=shared)
                worthwhile = shared + 1
        return sequence.awaited is not None

    def _reusable(self, shared: int, other: Sequence) -> int:
        """How many of the first `shared` tokens of `other` will be there to reuse when it has its prompt.

        Where pages are sealed a page is reused whole, or copied from a tail.
        """
        page_tokens = self._limits.page_tokens
        is_in_tail = shared // page_tokens == other.num_wanted // page_tokens
        if is_in_tail or not self._limits.num_tail_pages:
            return shared
        kept = [end for end in self._kept_ends(other) if end <= shared]
        return max(shared // page_tokens * page_tokens, *kept, 0)

    def _start(self, step: Step, sequence: Sequence) -> bool:
        """Admit `sequence` if the pages for its prompt are at hand, and schedule its first chunk."""
        handle = self._book.match(sequence)
        num_pages = -(-sequence.num_wanted // self._limits.page_tokens) - len(handle.pages)
        if self._running and not self._find_room(num_pages):
            handle.close()
            return False
        self._book.take_prefix(sequence, handle)
        if not self._take_prefix(step, sequence, handle):
            assert self._running, "an empty pool refused a sequence"
            self._book.give_back(sequence)
            return False
        sequence.status = SequenceStatus.RUNNING
        insort(self._running, sequence, key=_rank)
        step.admitted.append(sequence)
        self._count_admission(sequence)
        return True

    def _take_prefix(self, step: Step, sequence: Sequence, handle: PrefixHandle) -> bool:
        """Start from the cached prefix, its partial page copied, with pages for the first chunk."""
        for uses_partial in (True, False):
            if not uses_partial:
                handle.release_partial()
            partial = handle.partial
            sequence.num_computed = handle.num_tokens
            count = self._chunk(sequence, step.budget)
            if not self._book.grow(sequence, sequence.num_computed + count):
                continue
            if partial is not None:
                target = self._book.written_page(sequence, len(handle.pages))
                step.copies.append(
                    PageCopy(source=partial.page, target=target, num_tokens=partial.num_tokens)
                )
                step.copied.append(handle)
            self._add(step, sequence, count + self._final_drafts(step, sequence, count), None)
            return True
        return False

    def _new_pages(self, sequence: Sequence) -> int:
        """Pages the prompt needs beside those of its cached prefix."""
        cached = self.tree.peek(sequence.key(sequence.num_reusable), salt=sequence.request.cache_salt)
        return -(-sequence.num_wanted // self._limits.page_tokens) - cached // self._limits.page_tokens

    def _find_room(self, num_pages: int) -> bool:
        """Whether `num_pages` fit beside what running prompts still need and a page for each that may grow into one.

        Kept prefixes are hints: they make room before anybody waits or is preempted.
        """
        page_tokens = self._limits.page_tokens
        needed = num_pages
        for other in self._running:
            held = max(len(other.pages), -(-other.num_wanted // page_tokens))
            longest = other.num_prompt_tokens + max(0, other.request.max_tokens - 1)
            needed += held - len(other.pages) + (longest > held * page_tokens)
        return self._book.find_room(needed)

    def _count_admission(self, sequence: Sequence) -> None:
        if sequence.cached_tokens is None:
            sequence.cached_tokens = sequence.num_computed
            self._stats.prompt_tokens += sequence.num_prompt_tokens
            self._stats.cached_tokens += sequence.num_computed
            self._book.kept.begin(sequence)


def _rank(sequence: Sequence) -> tuple[float, int]:
    return sequence.rank


def _is_above(sequence: Sequence, other: Sequence) -> bool:
    """Whether `sequence` may take what `other` has: a higher priority that waiting has not made up for."""
    return sequence.request.priority > other.request.priority and sequence.rank < other.rank
