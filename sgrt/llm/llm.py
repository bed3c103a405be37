"""Batch generation under the names that programs written for vLLM use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from sgrt.config import ComputeMode, EngineConfig, KvCacheDtype
from sgrt.engine.completion import Completion
from sgrt.engine.engine import Engine
from sgrt.errors import InvalidRequest
from sgrt.llm.keywords import check_others, one_of
from sgrt.llm.outputs import CompletionOutput, Logprob, RequestOutput
from sgrt.llm.progress import progress_bar
from sgrt.llm.sampling_params import SamplingParams
from sgrt_frontend.call import Call, StopReason
from sgrt_frontend.call import SamplingParams as CallParams

_KV_DTYPES: Mapping[str, KvCacheDtype] = {
    "auto": "auto",
    "bfloat16": "bf16",
    "float32": "float32",
    "fp8": "fp8_e4m3",
    "fp8_e4m3": "fp8_e4m3",
    "int8": "int8",
}
_COMPUTE: Mapping[str, ComputeMode] = {"auto": "auto", "float32": "float32"}
_FINISH_REASONS = {
    StopReason.END_OF_TEXT: "stop",
    StopReason.STOP_STRING: "stop",
    StopReason.STOP_TOKEN: "stop",
    StopReason.BUDGET: "stop",
    StopReason.LENGTH: "length",
    StopReason.CANCELLED: "abort",
    StopReason.DEADLINE: "abort",
}

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
        check_others(others)
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
                compute=one_of("dtype", dtype, _COMPUTE),
                kv_cache_dtype=one_of("kv_cache_dtype", kv_cache_dtype, _KV_DTYPES),
                seed=seed,
                device=device,
                threads=threads,
            )
        )
        self._num_requests = 0

    @classmethod
    def from_engine(cls, engine: Engine) -> Self:
        """Batches on an engine that is there already; closing this closes it."""
        llm = cls.__new__(cls)
        llm._engine = engine
        llm._num_requests = 0
        return llm

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
        listed = _listed(prompts)
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
        with ExitStack() as running, progress_bar(len(calls), is_shown=use_tqdm) as bar:
            streams = [running.enter_context(self._engine.submit(call)) for call in calls]
            results = []
            for text, call, param, stream in zip(texts, calls, params, streams, strict=True):
                completions = stream.completions()
                bar.advance(sum(len(completion.token_ids) for completion in completions))
                results.append(self._output(text, call, param, completions))
        return results

    def _call(self, prompt: tuple[int, ...], param: SamplingParams) -> Call:
        room = self._engine.parts.limits.request_tokens - len(prompt)
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


def _is_tokens(prompt: object) -> bool:
    return (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, str)
        and all(isinstance(t, int) for t in prompt)
    )


def _text(prompt: Prompt) -> str | None:
    given = prompt.get("prompt") if isinstance(prompt, Mapping) else prompt
    return given if isinstance(given, str) else None


def _listed(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str | Mapping):
        return [prompts]
    if prompts and _is_tokens(prompts):
        return [[token for token in prompts if isinstance(token, int)]]
    listed = [prompt for prompt in prompts if not isinstance(prompt, int)]
    if len(listed) < len(prompts):
        raise InvalidRequest("prompts: token ids and prompts are mixed in one list", param="prompts")
    return listed
