"""The default model, for real: logits and greedy tokens of `transformers` on the same weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from paged_harness import PagedHarness
from texts import TEXTS
from tokenizers import AddedToken, models, pre_tokenizers
from tokenizers import Tokenizer as Reference
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.initialization import no_init_weights

from sgrt.checkpoint.checkpoint import Checkpoint
from sgrt.checkpoint.location import resolve
from sgrt.checkpoint.opening import open_checkpoint
from sgrt.errors import ModelNotFound
from sgrt.model.decoder import Decoder
from sgrt.model.registry import load_model
from sgrt.tokenizer.chat_template import ChatTemplate
from sgrt.tokenizer.data import ByteLevelBpe
from sgrt.tokenizer.tokenizer import Tokenizer
from sgrt_frontend.call import Message, Role

pytestmark = pytest.mark.model

QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Explain gravity to a child in two sentences.",
    "List three fruits and their colours.",
    "Translate 'good morning' into Spanish.",
    "Why is the sky blue?",
    "What is 17 times 23?",
    "Write a Python function that adds two numbers.",
    "Name a famous painting and who painted it.",
    "How do I boil an egg?",
    "Summarise the story of Cinderella.",
    "What does HTTP stand for?",
    "Give me a name for a grey cat.",
    "你好，你会说中文吗？",  # noqa: RUF001
    "Correct this sentence: he go to school yesterday.",
    "What is the largest planet?",
    "Write a JSON object with a name and an age.",
    "Is a tomato a fruit? 🍅",
    "Who wrote Hamlet?",
    "Count from one to ten.",
)
NAMES = {
    "self_attn.q_proj": "query",
    "self_attn.k_proj": "key",
    "self_attn.v_proj": "value",
    "self_attn.o_proj": "attention_output",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "down",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "mlp_norm",
}


@cache
def checkpoint() -> Checkpoint:
    try:
        return open_checkpoint(resolve("smollm2"))
    except ModelNotFound as error:
        pytest.skip(str(error))


@cache
def model() -> Decoder:
    return load_model(checkpoint(), compute_dtype=torch.float32, device=torch.device("cpu"))


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer(checkpoint().tokenizer_data)


@cache
def prompts() -> tuple[tuple[int, ...], ...]:
    data = checkpoint().tokenizer_data
    template = ChatTemplate(data.chat_template, tokenizer(), data.template_tokens)
    return tuple(
        template.render([Message(role=Role.USER, content=question)], add_generation_prompt=True)
        for question in QUESTIONS
    )


@cache
def reference() -> torch.nn.Module:
    """The architecture as `transformers` has it, with this file's weights."""
    config = checkpoint().config
    make: Callable[..., torch.nn.Module] = AutoModelForCausalLM.from_config
    with no_init_weights():
        theirs = make(
            LlamaConfig(
                vocab_size=config.vocabulary,
                hidden_size=config.hidden,
                intermediate_size=config.intermediate,
                num_hidden_layers=len(config.layers),
                num_attention_heads=config.heads,
                num_key_value_heads=config.kv_heads,
                max_position_embeddings=config.context,
                rms_norm_eps=config.norm_epsilon,
                tie_word_embeddings=config.tied_embeddings,
                rope_parameters={"rope_type": "default", "rope_theta": config.layers[0].rope.theta},
            ),
            dtype=torch.float32,
        )
    for name, parameter in theirs.named_parameters():
        parts = name.removesuffix(".weight").removeprefix("model.").split(".", 2)
        outer = {"embed_tokens": "embedding", "norm": "final_norm", "lm_head": "embedding"}
        ours = outer[parts[0]] if len(parts) == 1 else f"layers.{parts[1]}.{NAMES[parts[2]]}"
        parameter.data = checkpoint().tensor(f"{ours}.weight").float()
    return theirs


def reference_logits(tokens: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = reference()(torch.tensor([tokens])).logits[0]
    return logits


def test_logits_equal_those_of_transformers() -> None:
    harness = PagedHarness(model(), pages=64, page_tokens=32)
    for number, prompt in enumerate(prompts()[:2]):
        ours, theirs = harness.whole(number, prompt), reference_logits(list(prompt))
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=0.0)


def test_it_answers() -> None:
    harness = PagedHarness(model(), pages=8, page_tokens=32)
    assert "Paris" in tokenizer().decode(harness.greedy(0, prompts()[0], 12))


@pytest.mark.slow
def test_twenty_greedy_answers_of_64_tokens_are_those_of_transformers() -> None:
    harness = PagedHarness(model(), pages=160, page_tokens=32)
    sequences = [list(prompt) for prompt in prompts()]
    chunks = [(number, list(prompt)) for number, prompt in enumerate(prompts())]
    for _ in range(64):
        taken = [int(logits[-1].argmax()) for logits in harness.step(chunks)]
        chunks = [(number, [token]) for number, token in enumerate(taken)]
        for sequence, token in zip(sequences, taken, strict=True):
            sequence.append(token)
    # By induction over positions: each of our tokens is the reference's best after our tokens so far.
    for prompt, sequence in zip(prompts(), sequences, strict=True):
        best = reference_logits(sequence).argmax(dim=-1)[len(prompt) - 1 : -1]
        assert best.tolist() == sequence[len(prompt) :]


def test_its_tokens_are_those_of_the_tokenizer_json_it_was_made_from() -> None:
    definition = checkpoint().tokenizer_data.definition
    assert isinstance(definition, ByteLevelBpe)
    vocabulary = {token: index for index, token in enumerate(definition.tokens)}
    published = Reference(models.BPE(vocabulary, [(a, b) for a, b in map(str.split, definition.merges)]))
    published.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    published.add_special_tokens([AddedToken(token, special=True) for token in definition.tokens[:17]])
    for text in (*TEXTS, *QUESTIONS):
        assert list(tokenizer().encode(text, special=True)) == published.encode(text).ids
        assert tokenizer().decode(tokenizer().encode(text)) == text
