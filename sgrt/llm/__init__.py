"""Batch generation under the names that programs written for vLLM use: change the import, keep the program.

    from sgrt import LLM, SamplingParams

What has no counterpart here is refused by name, never ignored, unless it could not change a result.
"""

from sgrt.llm.llm import LLM
from sgrt.llm.outputs import CompletionOutput, Logprob, RequestOutput
from sgrt.llm.sampling_params import SamplingParams, StructuredOutputsParams

__all__ = ["LLM", "CompletionOutput", "Logprob", "RequestOutput", "SamplingParams", "StructuredOutputsParams"]
