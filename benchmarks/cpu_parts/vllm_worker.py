"""vLLM behind a pipe, for its own Python: one JSON request a line in, one JSON answer a line out."""

from __future__ import annotations

import argparse
import json
import os
import sys


def main() -> None:
    """Serve requests until the input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{arguments.threads - 1}")
    os.environ.setdefault("VLLM_CPU_NUM_OF_RESERVED_CPU", "0")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    answers = os.fdopen(os.dup(1), "w")  # vLLM prints to standard output as it likes
    os.dup2(2, 1)

    from vllm import LLM, SamplingParams  # noqa: PLC0415  # after the environment is set
    from vllm.sampling_params import StructuredOutputsParams  # noqa: PLC0415

    model = LLM(
        model=arguments.model,
        dtype="bfloat16",
        enable_prefix_caching=True,
        max_model_len=4096,
        max_num_seqs=64,
        disable_log_stats=True,
        structured_outputs_config={"backend": "xgrammar", "disable_any_whitespace": True},
    )

    def answer(value: object) -> None:
        print(json.dumps(value), file=answers, flush=True)

    answer("ready")
    for line in sys.stdin:
        request = json.loads(line)
        if request == "flush":
            model.reset_prefix_cache()
            answer("flushed")
            continue
        schema = request["schema"]
        sampling = SamplingParams(
            temperature=0,
            max_tokens=request["max_tokens"],
            ignore_eos=schema is None,
            structured_outputs=None if schema is None else StructuredOutputsParams(json=json.loads(schema)),
            detokenize=schema is not None,
        )
        prompts = [{"prompt_token_ids": prompt} for prompt in request["prompts"]]
        outputs = model.generate(prompts, sampling, use_tqdm=False)
        answer([list(output.outputs[0].token_ids) for output in outputs])


if __name__ == "__main__":
    main()
