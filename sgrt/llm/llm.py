"""Batch generation under the names that programs written for vLLM use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from sgrt.config import EngineConfig
from sgrt.engine.completion import Completion
from sgrt.engine.engine import Engine
from sgrt.errors import ContextOverflow, InvalidRequest
from sgrt.llm.keywords import check_others, compute_mode, in_their_names, kv_dtype
from sgrt.llm.llm_tokenizer import LLMTokenizer
from sgrt.llm.outputs import CompletionOutput, Logprob, RequestOutput
from sgrt.llm.progress import progress_bar
from sgrt.llm.sampling_params import SamplingParams
from sgrt.tokenizer.opening import opened
from sgrt_frontend.call import Call, Score, StopReason, TokenLogprob
from sgrt_grammars.constraint import AnyText

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
        if max_num_batched_tokens is None:
            max_num_batched_tokens = max(default.step_tokens, max_num_seqs + block_size)
        compute, cache_dtype = compute_mode(dtype, device), kv_dtype(kv_cache_dtype)
        with in_their_names():
            self._engine = Engine.from_config(
                EngineConfig(
                    model=model,
                    prefix_caching=enable_prefix_caching,
                    context_tokens=max_model_len,
                    max_running=max_num_seqs,
                    step_tokens=max_num_batched_tokens,
                    memory_fraction=gpu_memory_utilization,
                    page_tokens=block_size,
                    compute=compute,
                    kv_cache_dtype=cache_dtype,
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

    def get_tokenizer(self) -> LLMTokenizer:
        """The model's tokenizer: `encode`, `decode`, `apply_chat_template`."""
        return LLMTokenizer(self._engine.parts.tokenizer, self._engine.parts.template)

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
            return opened(tokenizer.begin_tokens, tokenizer.encode(prompt, special=True, is_start=True))
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
        calls = [
            self._call(number, prompt, param)
            for number, (prompt, param) in enumerate(zip(prompts, params, strict=True))
        ]
        with ExitStack() as running:
            streams = [running.enter_context(self._engine.submit(call)) for call in calls]
            if use_tqdm:
                running.enter_context(progress_bar(streams, self._engine.counters))
            scored = [
                self._prompt_scores(call.prompt, param) for call, param in zip(calls, params, strict=True)
            ]
            return [
                self._output(text, call, param, stream.completions(), scores)
                for text, call, param, stream, scores in zip(
                    texts, calls, params, streams, scored, strict=True
                )
            ]

    def _prompt_scores(self, prompt: tuple[int, ...], param: SamplingParams) -> Score | None:
        """The log-probabilities of the prompt's tokens but the first, where they are asked for."""
        if param.prompt_logprobs is None or len(prompt) < 2:
            return None
        (score,) = self._engine.score_blocking(prompt[:1], [prompt[1:]], top=param.prompt_logprobs)
        return score

    def _call(self, number: int, prompt: tuple[int, ...], param: SamplingParams) -> Call:
        room = self._engine.parts.limits.request_tokens - len(prompt)
        if room < 1:
            asked = "" if param.max_tokens is None else f" and max_tokens asks for {param.max_tokens}"
            raise ContextOverflow(
                f"prompts: prompt {number} has {len(prompt)} tokens{asked}, but {self._most()}",
                param="prompts",
            )
        return Call(prompt=prompt, sampling=param.for_call(room=room), constraint=param.for_output())

    def _most(self) -> str:
        """What bounds a request, and the keyword that does."""
        limits = self._engine.parts.limits
        if limits.pool_tokens < limits.context_tokens:
            return (
                f"the cache of keys and values holds {limits.pool_tokens} tokens: shorten the prompt, or raise "
                "gpu_memory_utilization"
            )
        most = limits.model_context_tokens
        advice = f", or raise max_model_len (to {most} at most)" if limits.can_raise_context else ""
        return f"the context holds {limits.context_tokens} tokens: shorten the prompt{advice}"

    def _output(
        self,
        text: str | None,
        call: Call,
        param: SamplingParams,
        completions: Sequence[Completion],
        scores: Score | None,
    ) -> RequestOutput:
        self._num_requests += 1
        return RequestOutput(
            request_id=str(self._num_requests - 1),
            prompt=text,
            prompt_token_ids=list(call.prompt),
            outputs=[self._completion(completion, param) for completion in completions],
            num_cached_tokens=completions[0].finish.usage.cached_tokens,
            prompt_logprobs=None
            if param.prompt_logprobs is None
            else self._prompt_logprobs(call.prompt, scores),
        )

    def _completion(self, completion: Completion, param: SamplingParams) -> CompletionOutput:
        finish = completion.finish
        has_logprobs = param.logprobs is not None
        is_cut = finish.reason is StopReason.BUDGET and isinstance(param.for_output(), AnyText)
        stopped_by = finish.stop if finish.reason in (StopReason.STOP_STRING, StopReason.STOP_TOKEN) else None
        return CompletionOutput(
            index=completion.index,
            text=completion.text,
            token_ids=list(completion.token_ids),
            finish_reason="length" if is_cut else _FINISH_REASONS[finish.reason],
            stop_reason=stopped_by,
            cumulative_logprob=sum(info.chosen.logprob for info in completion.logprobs)
            if has_logprobs
            else None,
            logprobs=self._logprobs(completion) if has_logprobs else None,
        )

    def _logprobs(self, completion: Completion) -> list[dict[int, Logprob]]:
        return [self._position(info.chosen, info.top) for info in completion.logprobs]

    def _prompt_logprobs(
        self, prompt: tuple[int, ...], scores: Score | None
    ) -> list[dict[int, Logprob] | None]:
        """One entry a token of the prompt; nothing precedes the first one."""
        if scores is None:
            return [None] * len(prompt)
        tops = scores.top or ((),) * len(scores.logprobs)
        return [
            None,
            *(
                self._position(TokenLogprob(token_id=token, logprob=logprob), top)
                for token, logprob, top in zip(prompt[1:], scores.logprobs, tops, strict=True)
            ),
        ]

    def _position(self, chosen: TokenLogprob, top: Sequence[TokenLogprob]) -> dict[int, Logprob]:
        decode = self._engine.parts.tokenizer.decode
        ranks = {entry.token_id: rank for rank, entry in enumerate(top, 1)}
        return {
            entry.token_id: Logprob(
                logprob=entry.logprob,
                rank=ranks.get(entry.token_id),
                decoded_token=decode([entry.token_id], skip_special=False),
            )
            for entry in (*top, chosen)
        }


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
