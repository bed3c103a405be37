"""What forward passes cost on a machine."""

from __future__ import annotations

from dataclasses import dataclass

from sgrt_frontend.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Seconds of a forward pass: `pass_s`, and so much more for each token and each token it attends to.

    A pass computes prompt tokens and one token of every sequence that generates; the two differ, because many
    tokens of one prompt share the reading of weights and of context. `sgrt.measure_cost(engine)` measures the four
    rates; the defaults are those of a small model on two cores of a laptop.
    """

    pass_s: float = 0.011
    prompt_token_s: float = 0.0009
    output_token_s: float = 0.0016
    context_token_s: float = 2.5e-7

    def __post_init__(self) -> None:
        for name in ("pass_s", "prompt_token_s", "output_token_s", "context_token_s"):
            if getattr(self, name) < 0:
                raise InvalidRequest(f"{name}: must be at least 0", param=name)

    def seconds(
        self, *, prompt_tokens: int, output_tokens: int, attended_tokens: int, passes: int = 1
    ) -> float:
        """How long passes take that compute these tokens, which attend to so many tokens together."""
        return (
            passes * self.pass_s
            + prompt_tokens * self.prompt_token_s
            + output_tokens * self.output_token_s
            + attended_tokens * self.context_token_s
        )
