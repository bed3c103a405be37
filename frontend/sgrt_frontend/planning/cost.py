"""What forward passes cost on a machine."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sgrt_frontend.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Seconds of a forward pass: `pass_s`, and so much more for each token, each token it attends to, and each token of
    context that is read.

    A pass computes prompt tokens and one token of every sequence that generates; the two differ, because many
    tokens of one prompt share the reading of weights. Context is read once for all sequences that generate and have it
    in common, and once for each prompt. `sgrt.measure_cost(engine)` measures the
    rates; the defaults are those of a small model on two cores of a laptop.
    """

    pass_s: float = 0.0035
    prompt_token_s: float = 0.0004
    output_token_s: float = 0.00055
    prompt_context_s: float = 5e-7
    output_context_s: float = 5e-7
    context_read_s: float = 5e-7

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise InvalidRequest(f"{field.name}: must be at least 0", param=field.name)

    def seconds(
        self,
        *,
        passes: int,
        prompt_tokens: int = 0,
        output_tokens: int = 0,
        prompt_context: int = 0,
        output_context: int = 0,
        context_read: int = 0,
    ) -> float:
        """How long passes take that compute these tokens; contexts add up what the tokens of a kind attend to,
        `context_read` what the passes read of keys and values.
        """
        return (
            passes * self.pass_s
            + prompt_tokens * self.prompt_token_s
            + output_tokens * self.output_token_s
            + prompt_context * self.prompt_context_s
            + output_context * self.output_context_s
            + context_read * self.context_read_s
        )
