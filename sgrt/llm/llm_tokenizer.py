"""What `LLM.get_tokenizer()` gives: the methods of a tokenizer that scripts use, under their usual names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sgrt.tokenizer.chat_template import ChatTemplate
from sgrt.tokenizer.disguise import Json
from sgrt.tokenizer.opening import opened
from sgrt.tokenizer.tokenizer import Tokenizer


class LLMTokenizer:
    """The model's tokenizer and chat template."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._template = template

    def __len__(self) -> int:
        return self._tokenizer.size

    @property
    def vocab_size(self) -> int:
        """How many tokens there are."""
        return self._tokenizer.size

    @property
    def eos_token_id(self) -> int | None:
        """The first token that ends a text, if there is one."""
        return next(iter(self._tokenizer.end_token_ids), None)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids. Marks such as `<|im_start|>` are special tokens, as in prompts of `LLM.generate`.

        `add_special_tokens` puts what every text begins with before it, unless it begins with that itself.
        """
        begin = self._tokenizer.begin_tokens if add_special_tokens else ()
        return list(opened(begin, self._tokenizer.encode(text, special=True, is_start=True)))

    def decode(self, token_ids: int | Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of tokens; broken UTF-8 becomes U+FFFD."""
        listed = [token_ids] if isinstance(token_ids, int) else token_ids
        return self._tokenizer.decode(listed, skip_special=skip_special_tokens)

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Json]],
        *,
        tools: Sequence[Mapping[str, Json]] | None = None,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        **variables: Json,
    ) -> list[int] | str:
        """A chat under the model's own template: token ids, or its text without `tokenize`.

        Raises:
            InvalidRequest: the model has no chat template, or it refuses these messages.
        """
        if not tokenize:
            return self._template.render_text(
                conversation,
                add_generation_prompt=add_generation_prompt,
                tools=tools or (),
                variables=variables,
            )
        return list(
            self._template.render(
                conversation,
                add_generation_prompt=add_generation_prompt,
                tools=tools or (),
                variables=variables,
            )
        )
