"""sgrt behind a pipe: one JSON request a line in, one JSON answer a line out."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor

from sgrt.engine.engine import Engine
from sgrt_frontend.call import Call, SamplingParams
from sgrt_grammars.constraint import JsonSchema


def main() -> None:
    """Serve requests until the input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    with Engine(arguments.model, threads=arguments.threads) as engine, ThreadPoolExecutor(64) as pool:
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            if request == "flush":
                engine.flush_cache_blocking()
                print(json.dumps("flushed"), flush=True)
                continue
            schema = request["schema"]
            constraint = None if schema is None else JsonSchema(text=schema)
            sampling = SamplingParams(max_tokens=request["max_tokens"], ignore_eos=schema is None)
            calls = [
                Call(prompt=tuple(prompt), sampling=sampling, constraint=constraint)
                for prompt in request["prompts"]
            ]
            done = pool.map(lambda call: list(engine.complete(call)[0].token_ids), calls)
            print(json.dumps(list(done)), flush=True)


if __name__ == "__main__":
    main()
