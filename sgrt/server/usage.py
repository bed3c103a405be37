"""Token counts of a request as the wire spells them, in all four paths the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from sgrt_frontend.call import Usage


@dataclass(slots=True, kw_only=True)
class UsageSum:
    """Adds up the outputs of a request. A prompt that several outputs share counts once."""

    _prompts: dict[int, int] = field(default_factory=dict)
    _cached: dict[int, int] = field(default_factory=dict)
    _outputs: dict[tuple[int, int], int] = field(default_factory=dict)
    reasoning_tokens: int = 0

    def add(self, usage: Usage, *, index: int, prompt: int = 0) -> None:
        """Count output `index` of prompt number `prompt`."""
        self._prompts[prompt] = usage.prompt_tokens
        self.note_cached(usage.cached_tokens, prompt=prompt)
        self._outputs[prompt, index] = usage.output_tokens

    def note_tokens(self, count: int, *, index: int, prompt: int = 0) -> None:
        """Count tokens of an output that has not finished."""
        key = (prompt, index)
        self._outputs[key] = self._outputs.get(key, 0) + count

    def note_prompt(self, tokens: int, *, prompt: int = 0) -> None:
        """Count a prompt before any of its outputs has finished."""
        self._prompts.setdefault(prompt, tokens)

    def note_cached(self, tokens: int | None, *, prompt: int = 0) -> None:
        """Count what of a prompt came from the cache, as its first output found it."""
        if tokens is not None:
            self._cached.setdefault(prompt, tokens)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(self._prompts.values())

    @property
    def completion_tokens(self) -> int:
        """Tokens of all outputs."""
        return sum(self._outputs.values())

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that came from the cache."""
        return sum(self._cached.values())

    @property
    def wire(self) -> dict[str, object]:
        """The `usage` object of chat and text completions. A cached count of 0 is a value."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
        }
