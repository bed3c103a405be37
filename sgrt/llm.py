"""Batch generation under the names that programs written for vLLM use: change the import, keep the program.

    from sgrt import LLM, SamplingParams

What has no counterpart here is refused by name, never ignored, unless it could not change a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Literal, Self, TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from sgrt.config import ComputeMode, EngineConfig, KvCacheDtype
from sgrt.engine.completion import Completion
from sgrt.engine.engine import Engine
from sgrt.errors import InvalidRequest
from sgrt_frontend.call import Call, StopReason
from sgrt_frontend.call import SamplingParams as CallParams
from sgrt_grammars.constraint import (
    Choice,
    Constraint,
    ContextFree,
    GrammarDialect,
    JsonObject,
    JsonSchema,
    Regex,
)

T = TypeVar("T")

_HARMLESS = frozenset(
    {"trust_remote_code", "enforce_eager", "disable_log_stats", "swap_space", "disable_custom_all_reduce"}
)
_MUST_BE: Mapping[str, tuple[object, ...]] = {
    "tensor_parallel_size": (1,),
    "pipeline_parallel_size": (1,),
    "tokenizer": (None,),
    "tokenizer_mode": ("auto",),
    "quantization": (None, "gguf"),
    "load_format": ("auto", "gguf"),
    "enable_chunked_prefill": (True,),
    "enable_lora": (False,),
}
_KV_DTYPES: Mapping[str, KvCacheDtype] = {"auto": "auto", "bfloat16": "bf16", "float32": "float32"}
_COMPUTE: Mapping[str, ComputeMode] = {"auto": "auto", "float32": "float32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How outputs are drawn; names and defaults are vLLM's.

    `constraint` takes any constraint of `sgrt_grammars`. Presence and frequency penalties count generated
    tokens, the repetition penalty those of the prompt as well. `logprobs=k` returns the k best of the model's own
    distribution. A request whose `max_tokens` exceed the context ends where the context does.
    """

    n: int = 1
    max_tokens: int | None = 16
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | None = None
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logprobs: int | None = None
    skip_special_tokens: Literal[True] = True
    detokenize: Literal[True] = True
    structured_outputs: StructuredOutputsParams | None = None
    constraint: Constraint | None = None

    def __post_init__(self) -> None:
        if not (self.skip_special_tokens and self.detokenize):
            raise InvalidRequest(
                "skip_special_tokens and detokenize: only True is supported", param="detokenize"
            )
        if self.structured_outputs is not None and self.constraint is not None:
            raise InvalidRequest("constraint: give either it or structured_outputs", param="constraint")
        self.for_call(room=self.max_tokens or 0)

    def for_call(self, *, room: int) -> CallParams:
        """The engine's own parameters for a prompt behind which the context has `room` tokens."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return CallParams(
            n=self.n,
            max_tokens=room if self.max_tokens is None else min(self.max_tokens, room),
            min_tokens=min(self.min_tokens, room) if self.max_tokens is None else self.min_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=max(0, self.top_k),
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=tuple((self.logit_bias or {}).items()),
            seed=self.seed,
            stop=stop,
            stop_token_ids=tuple(self.stop_token_ids or ()),
            include_stop=self.include_stop_str_in_output,
            ignore_eos=self.ignore_eos,
            logprobs=self.logprobs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredOutputsParams:
    """The shape of an output; exactly one field is set. `json` is a schema as text."""

    json: str | None = None
    regex: str | None = None
    choice: Sequence[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None

    def __post_init__(self) -> None:
        if sum(1 for each in fields(self) if getattr(self, each.name)) != 1:
            names = ", ".join(each.name for each in fields(self))
            raise InvalidRequest(
                f"structured_outputs: set exactly one of {names}", param="structured_outputs"
            )

    def constraint(self) -> Constraint:
        """The constraint meant."""
        if self.json:
            return JsonSchema(text=self.json)
        if self.regex:
            return Regex(pattern=self.regex)
        if self.choice:
            return Choice(options=tuple(self.choice))
        if self.grammar:
            return ContextFree(text=self.grammar, dialect=GrammarDialect.LARK)
        return JsonObject()


@dataclass(frozen=True, slots=True, kw_only=True)
class Logprob:
    """The log-probability of a token, its place among all (1 is the best), and its text."""

    logprob: float
    rank: int | None
    decoded_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOutput:
    """One output. `finish_reason` is "stop", "length" or "abort"; `stop_reason` the stop string or token, if any."""

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str
    stop_reason: str | int | None
    cumulative_logprob: float | None = None
    logprobs: list[dict[int, Logprob]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """A prompt and its outputs."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput] = field(default_factory=list)
    num_cached_tokens: int = 0
    finished: bool = True


Prompt = str | Sequence[int] | Mapping[str, object]


class LLM:
    """A model for batches of prompts; a context manager, though closing it is optional."""

    def __init__(
        self,
        model: str = "smollm2",
        *,
        enable_prefix_caching: bool = True,
        max_model_len: int | None = None,
        max_num_seqs: int = 64,
        max_num_batched_tokens: int | None = None,
        gpu_memory_utilization: float | None = None,
        block_size: int = 32,
        dtype: str = "auto",
        kv_cache_dtype: str = "auto",
        seed: int | None = None,
        device: str = "cpu",
        threads: int | None = None,
        **others: object,
    ) -> None:
        """Load a model.

        Raises:
            InvalidRequest: a keyword is unknown or has a value that is not supported; the message names it.
            ModelError: the model cannot be found, read or run.
        """
        _check_others(others)
        default = EngineConfig()
        self._engine = Engine.from_config(
            EngineConfig(
                model=model,
                prefix_caching=enable_prefix_caching,
                context_tokens=max_model_len,
                max_running=max_num_seqs,
                step_tokens=max_num_batched_tokens or max(default.step_tokens, max_num_seqs + block_size),
                memory_fraction=gpu_memory_utilization or default.memory_fraction,
                page_tokens=block_size,
                compute=_one_of("dtype", dtype, _COMPUTE),
                kv_cache_dtype=_one_of("kv_cache_dtype", kv_cache_dtype, _KV_DTYPES),
                seed=seed,
                device=device,
                threads=threads,
            )
        )
        self._num_requests = 0

    @property
    def engine(self) -> Engine:
        """The engine behind."""
        return self._engine

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Complete prompts: strings, token ids, or `{"prompt": ...}` / `{"prompt_token_ids": ...}`.

        In strings, marks such as `<|im_start|>` are special tokens. All run together; results come in the
        order of the prompts. `use_tqdm` shows a progress bar.

        Raises:
            InvalidRequest: a prompt or a parameter is wrong; nothing runs then.
        """
        listed = [prompts] if isinstance(prompts, str | Mapping) or _is_tokens(prompts) else list(prompts)
        texts = [_text(prompt) for prompt in listed]
        tokens = [self._tokens(prompt) for prompt in listed]
        return self._run(texts, tokens, sampling_params, use_tqdm=use_tqdm)

    def chat(
        self,
        messages: Sequence[Mapping[str, object]] | Sequence[Sequence[Mapping[str, object]]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        add_generation_prompt: bool = True,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Answer chats: one list of messages, or a list of such lists. Messages have "role" and "content".

        Raises:
            InvalidRequest: the model has no chat template, or it refuses these messages.
        """
        chats = [messages] if messages and isinstance(messages[0], Mapping) else list(messages)
        template = self._engine.parts.template
        tokens = [
            template.render(chat, add_generation_prompt=add_generation_prompt)  # type: ignore[arg-type]  # as given
            for chat in chats
        ]
        return self._run([None] * len(tokens), tokens, sampling_params, use_tqdm=use_tqdm)

    def close(self) -> None:
        """Stop the engine and release the model."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tokens(self, prompt: Prompt) -> tuple[int, ...]:
        if isinstance(prompt, Mapping):
            given = prompt.get("prompt_token_ids", prompt.get("prompt"))
            if not isinstance(given, str) and not _is_tokens(given):
                raise InvalidRequest(
                    'prompts: a mapping needs "prompt" or "prompt_token_ids"', param="prompts"
                )
            return self._tokens(given)  # type: ignore[arg-type]  # checked on the line before
        if isinstance(prompt, str):
            tokenizer = self._engine.parts.tokenizer
            return (*tokenizer.begin_tokens, *tokenizer.encode(prompt, special=True, is_start=True))
        return tuple(prompt)

    def _run(
        self,
        texts: Sequence[str | None],
        prompts: Sequence[tuple[int, ...]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None,
        *,
        use_tqdm: bool,
    ) -> list[RequestOutput]:
        if sampling_params is None or isinstance(sampling_params, SamplingParams):
            params: Sequence[SamplingParams] = [sampling_params or SamplingParams()] * len(prompts)
        else:
            params = sampling_params
        if len(params) != len(prompts):
            raise InvalidRequest(
                f"sampling_params: {len(params)} given for {len(prompts)} prompts", param="sampling_params"
            )
        calls = [self._call(prompt, param) for prompt, param in zip(prompts, params, strict=True)]
        with ExitStack() as running, _progress(len(calls), is_shown=use_tqdm) as bar:
            streams = [running.enter_context(self._engine.submit(call)) for call in calls]
            results = []
            for text, call, param, stream in zip(texts, calls, params, streams, strict=True):
                completions = stream.completions()
                bar.advance(sum(len(completion.token_ids) for completion in completions))
                results.append(self._output(text, call, param, completions))
        return results

    def _call(self, prompt: tuple[int, ...], param: SamplingParams) -> Call:
        room = self._engine.parts.limits.context_tokens - len(prompt)
        constraint = param.constraint
        if param.structured_outputs is not None:
            constraint = param.structured_outputs.constraint()
        if room < 1:
            # The engine's own refusal says both lengths.
            return Call(prompt=prompt, sampling=CallParams(max_tokens=1))
        return Call(prompt=prompt, sampling=param.for_call(room=room), constraint=constraint)

    def _output(
        self, text: str | None, call: Call, param: SamplingParams, completions: Sequence[Completion]
    ) -> RequestOutput:
        self._num_requests += 1
        return RequestOutput(
            request_id=str(self._num_requests - 1),
            prompt=text,
            prompt_token_ids=list(call.prompt),
            outputs=[self._completion(completion, param) for completion in completions],
            num_cached_tokens=completions[0].finish.usage.cached_tokens,
        )

    def _completion(self, completion: Completion, param: SamplingParams) -> CompletionOutput:
        finish = completion.finish
        has_logprobs = param.logprobs is not None
        stopped_by = finish.stop if finish.reason in (StopReason.STOP_STRING, StopReason.STOP_TOKEN) else None
        return CompletionOutput(
            index=completion.index,
            text=completion.text,
            token_ids=list(completion.token_ids),
            finish_reason=_FINISH_REASONS[finish.reason],
            stop_reason=stopped_by,
            cumulative_logprob=sum(info.chosen.logprob for info in completion.logprobs)
            if has_logprobs
            else None,
            logprobs=self._logprobs(completion) if has_logprobs else None,
        )

    def _logprobs(self, completion: Completion) -> list[dict[int, Logprob]]:
        decode = self._engine.parts.tokenizer.decode
        positions = []
        for info in completion.logprobs:
            ranks = {entry.token_id: rank for rank, entry in enumerate(info.top, 1)}
            positions.append(
                {
                    entry.token_id: Logprob(
                        logprob=entry.logprob,
                        rank=ranks.get(entry.token_id),
                        decoded_token=decode([entry.token_id], skip_special=False),
                    )
                    for entry in (*info.top, info.chosen)
                }
            )
        return positions


_FINISH_REASONS = {
    StopReason.END_OF_TEXT: "stop",
    StopReason.STOP_STRING: "stop",
    StopReason.STOP_TOKEN: "stop",
    StopReason.BUDGET: "stop",
    StopReason.LENGTH: "length",
    StopReason.CANCELLED: "abort",
    StopReason.DEADLINE: "abort",
}


class _Bar:
    """Counts finished prompts and tokens."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("prompts", total=total, rate="") if progress is not None else None
        self._tokens = 0

    def advance(self, tokens: int) -> None:
        """One prompt is done, with this many output tokens."""
        self._tokens += tokens
        if self._progress is not None and self._task is not None:
            task = self._progress.tasks[0]
            seconds = task.elapsed or 0.0
            rate = f"{self._tokens / seconds:.0f} tokens/s" if seconds else ""
            self._progress.update(self._task, advance=1, rate=rate)


@contextmanager
def _progress(total: int, *, is_shown: bool) -> Iterator[_Bar]:
    if not is_shown:
        yield _Bar(None, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, transient=True) as progress:
        yield _Bar(progress, total)


def _is_tokens(prompt: object) -> bool:
    return (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, str)
        and all(isinstance(t, int) for t in prompt)
    )


def _text(prompt: Prompt) -> str | None:
    given = prompt.get("prompt") if isinstance(prompt, Mapping) else prompt
    return given if isinstance(given, str) else None


def _one_of(name: str, value: str, known: Mapping[str, T]) -> T:
    if value not in known:
        raise InvalidRequest(f"{name}: must be one of {', '.join(known)}, not {value!r}", param=name)
    return known[value]


def _check_others(others: Mapping[str, object]) -> None:
    for name, value in others.items():
        if name in _HARMLESS:
            continue
        if name not in _MUST_BE:
            raise InvalidRequest(
                f"{name}: LLM does not know this keyword; it takes model, enable_prefix_caching, max_model_len, "
                "max_num_seqs, max_num_batched_tokens, gpu_memory_utilization, block_size, dtype, kv_cache_dtype, "
                "seed, device, threads",
                param=name,
            )
        if value not in _MUST_BE[name]:
            allowed = " or ".join(map(repr, _MUST_BE[name]))
            raise InvalidRequest(f"{name}: only {allowed} is supported, not {value!r}", param=name)
