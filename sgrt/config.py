"""What a user may set on an engine, and the limits that follow once the model is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypedDict

from sgrt.errors import InvalidRequest

ComputeMode = Literal["auto", "float32"]
KvCacheDtype = Literal["auto", "float32", "bf16", "int16", "fp8_e4m3", "int8"]

KV_CACHE_DTYPES: tuple[KvCacheDtype, ...] = ("auto", "float32", "bf16", "int16", "fp8_e4m3", "int8")

_LARGEST_DEFAULT_POOL_TOKENS = 131_072
_HOST_MEMORY_FRACTION = 0.4  # of what is available: the machine does other things
_GPU_MEMORY_FRACTION = 0.9  # of all of it: the rest is for intermediate results and CUDA graphs


def _require(is_valid: bool, param: str, message: str) -> None:
    if not is_valid:
        raise InvalidRequest(f"{param}: {message}", param=param)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Settings of an in-process engine. None and "auto" are resolved when the model is known.

    `model` is a name `sgrt pull` knows, a `.gguf` file or a Hugging Face folder. `compute="float32"` is
    the exact mode parity tests use. `context_tokens` caps prompt plus output of one request.
    `num_pages` is the size of the KV pool; by default it takes `memory_fraction` of the memory that is
    available (0.4 unless set), and on a GPU what weights leave of that fraction of all its memory (0.9).
    `step_tokens` is the most one forward pass computes; longer prompts are computed in chunks that end at page borders. `aging_s` is the waiting time that counts as one level of
    priority. With `batch_invariant` a GPU cuts its sums alike whatever else it computes, which takes longer; a CPU
    always does. `template_limit_s` has chat templates rendered in a process of their own, which is ended when one takes
    more seconds of processor time. `verbose` says on stderr, in one line, what was loaded and which sizes were
    chosen. `checks_integrity` verifies every count after every step (slow; for tests).

    Raises:
        InvalidRequest: a value is out of range; the message names the field.
    """

    model: str = "smollm2"
    compute: ComputeMode = "auto"
    kv_cache_dtype: KvCacheDtype = "auto"
    device: str = "cpu"
    threads: int | None = None
    context_tokens: int | None = None
    page_tokens: int = 32
    num_pages: int | None = None
    memory_fraction: float | None = None
    max_running: int = 64
    step_tokens: int = 512
    max_draft_tokens: int = 32
    prefix_caching: bool = True
    aging_s: float = 10.0
    batch_invariant: bool = False
    seed: int | None = None
    template_limit_s: float | None = None
    verbose: bool = True
    checks_integrity: bool = False

    def __post_init__(self) -> None:
        _require(self.compute in ("auto", "float32"), "compute", 'must be "auto" or "float32"')
        _require(
            self.kv_cache_dtype in KV_CACHE_DTYPES,
            "kv_cache_dtype",
            f"must be one of {', '.join(KV_CACHE_DTYPES)}, not {self.kv_cache_dtype!r}",
        )
        _require(self.threads is None or self.threads >= 1, "threads", "must be at least 1")
        _require(
            self.context_tokens is None or self.context_tokens >= 2, "context_tokens", "must be at least 2"
        )
        _require(1 <= self.page_tokens <= 1024, "page_tokens", "must lie in [1, 1024]")
        _require(self.num_pages is None or self.num_pages >= 1, "num_pages", "must be at least 1")
        _require(
            self.memory_fraction is None or 0.0 < self.memory_fraction <= 0.95,
            "memory_fraction",
            "must lie in (0, 0.95]",
        )
        _require(self.max_running >= 1, "max_running", "must be at least 1")
        _require(
            self.step_tokens >= self.max_running + self.page_tokens,
            "step_tokens",
            f"must be at least max_running + page_tokens = {self.max_running + self.page_tokens}, "
            "so that every running request and one page of a prompt fit a step",
        )
        _require(self.max_draft_tokens >= 0, "max_draft_tokens", "must be at least 0")
        _require(self.aging_s > 0, "aging_s", "must be positive")
        _require(
            self.template_limit_s is None or 0 < self.template_limit_s <= 1e9,
            "template_limit_s",
            "must be positive, and at most 1e9",
        )
        _require(self.seed is None or 0 <= self.seed < 2**63, "seed", "must lie in [0, 2**63)")


class EngineSettings(TypedDict, total=False):
    """The fields of `EngineConfig` but `model`, as keywords."""

    compute: ComputeMode
    kv_cache_dtype: KvCacheDtype
    device: str
    threads: int | None
    context_tokens: int | None
    page_tokens: int
    num_pages: int | None
    memory_fraction: float | None
    max_running: int
    step_tokens: int
    max_draft_tokens: int
    prefix_caching: bool
    aging_s: float
    batch_invariant: bool
    seed: int | None
    template_limit_s: float | None
    verbose: bool
    checks_integrity: bool


def check_setting_names(names: Iterable[str]) -> None:
    """Every name is one of `EngineSettings`.

    Raises:
        InvalidRequest: one is not; names it, those that are spelled like it, and all that are known.
    """
    known = EngineSettings.__annotations__
    for name in names:
        if name not in known:
            alike = get_close_matches(name, known)
            meant = f"; did you mean {' or '.join(alike)}?" if alike else "."
            raise InvalidRequest(
                f"{name}: an engine has no such setting{meant} Known: {', '.join(known)}", param=name
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes the scheduler works within, all resolved."""

    context_tokens: int
    num_pages: int
    page_tokens: int
    max_running: int
    step_tokens: int
    max_draft_tokens: int
    aging_s: float = 10.0
    model_context_tokens: int | None = (
        None  # the model's own, where it is known: how far a context can be raised
    )
    num_tail_pages: int = 0  # exact pages beside `num_pages` sealed ones; 0: pages are not sealed

    @property
    def pool_tokens(self) -> int:
        """Tokens whose keys and values fit the pool."""
        return self.num_pages * self.page_tokens

    @property
    def can_raise_context(self) -> bool:
        """Whether the model's context is longer than the one that is set."""
        return self.model_context_tokens is not None and self.context_tokens < self.model_context_tokens

    @property
    def request_tokens(self) -> int:
        """The most that prompt and output of one request may be together.

        The last token's keys and values are never computed, so the pool may be one token shorter.
        """
        return min(self.context_tokens, self.pool_tokens + 1)


def resolve_limits(
    config: EngineConfig,
    *,
    model_context_tokens: int,
    bytes_per_token: int,
    available_bytes: int,
    total_bytes: int | None = None,
    tail_bytes_per_token: int = 0,
) -> Limits:
    """The limits of `config` for a model of this context and size of keys and values.

    With `tail_bytes_per_token` full pages are sealed, and exact pages of that size lie beside them.
    The pool takes the asked fraction of `available_bytes`; with `total_bytes`, a GPU's, what others leave of that
    fraction of these. But not more than every running request could use, nor, on a CPU, more than 131 072 tokens
    unless `num_pages` asks for it.

    Raises:
        InvalidRequest: the context is longer than the model's, or not even one page fits the memory.
    """
    context = config.context_tokens or model_context_tokens
    _require(
        context <= model_context_tokens,
        "context_tokens",
        f"{context} is more than the model's context of {model_context_tokens} tokens",
    )
    pages = config.num_pages
    tails = (
        tail_pages(config.max_running, config.step_tokens, config.page_tokens) if tail_bytes_per_token else 0
    )
    if pages is None:
        pool_bytes = _pool_bytes(config, available_bytes, total_bytes)
        affordable = max(0, pool_bytes - tails * config.page_tokens * tail_bytes_per_token) // bytes_per_token
        context_pages = -(-context // config.page_tokens)
        pages = min(affordable // config.page_tokens, config.max_running * context_pages)
        if config.device == "cpu":
            pages = min(pages, max(_LARGEST_DEFAULT_POOL_TOKENS // config.page_tokens, context_pages))
        _require(
            pages >= 1,
            "memory_fraction",
            f"of {available_bytes} available bytes the pool gets {max(0, pool_bytes)}, which holds no page of "
            f"{config.page_tokens} tokens ({bytes_per_token} bytes each) beside {tails} tail pages; free memory, "
            "raise memory_fraction, lower max_running or set num_pages",
        )
    return Limits(
        context_tokens=context,
        num_pages=pages,
        page_tokens=config.page_tokens,
        max_running=config.max_running,
        step_tokens=config.step_tokens,
        max_draft_tokens=config.max_draft_tokens,
        aging_s=config.aging_s,
        model_context_tokens=model_context_tokens,
        num_tail_pages=tails,
    )


def _pool_bytes(config: EngineConfig, available_bytes: int, total_bytes: int | None) -> int:
    """What the pool may take; not positive where a GPU is full."""
    if total_bytes is None:
        return int(available_bytes * (config.memory_fraction or _HOST_MEMORY_FRACTION))
    taken = total_bytes - available_bytes
    return int(total_bytes * (config.memory_fraction or _GPU_MEMORY_FRACTION)) - taken


def tail_pages(max_running: int, step_tokens: int, page_tokens: int) -> int:
    """Exact pages that always suffice where full pages are sealed.

    A sequence keeps one; what it computes in a step of its own share of the tokens begins at most one page more; an
    admitted one may also hold the page that it copies. What is not in use keeps tails of finished sequences.
    """
    return 3 * max_running + -(-step_tokens // page_tokens)
