"""Drawing the next token of every row under masks, penalties and filters, and the model's log-probabilities."""

from sgrt_kernels.ops.masked_sample.dispatch import masked_sample, token_logprobs
from sgrt_kernels.ops.masked_sample.rows import SamplingRows, TokenHistory

__all__ = ["SamplingRows", "TokenHistory", "masked_sample", "token_logprobs"]
