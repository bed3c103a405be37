"""sgrt on a CPU, side by side with llama.cpp's server and vLLM where their paths are given, and against the machine.

    python benchmarks/cpu.py
    python benchmarks/cpu.py --llama-server BIN --llama-model FILE.Q4_0.gguf --vllm-python PYTHON --vllm-model FOLDER

All engines get the same token ids and the same number of threads; each task starts with an empty cache and
other text in every round; rounds of the engines alternate, figures are medians.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cpu_parts import dispatch, growth, parity, passes
from cpu_parts.peers import LlamaServer, Piped, peak_rss_mb, sgrt_peer, vllm_peer
from cpu_parts.prompts import Prompts, Tokens
from cpu_parts.workload import WORKLOADS, Bench, Peer, Result

from sgrt.checkpoint.opening import open_checkpoint
from sgrt.engine.calibration import measure_cost
from sgrt.engine.engine import Engine
from sgrt.model.native_decoder import NativeDecoder
from sgrt.tokenizer.tokenizer import Tokenizer
from sgrt_kernels.native.library import kernels
from sgrt_kernels.native.machine_limits import MachineLimits, measure_limits
from sgrt_kernels.native.weights import ThreadTeam, usable_threads

HIGHER_IS_BETTER = ("prefill", "decode1", "decode16")


def main() -> None:
    """Measure what was asked for and print tables."""
    arguments = _arguments()
    with ThreadTeam(kernels(), arguments.threads) as team:
        limits = measure_limits(team)
    print(
        f"machine: reads {limits.read_bytes_per_s / 1e9:.1f} GB/s, int8 "
        f"{limits.multiplies_per_s / 1e9:.0f} billion multiply-accumulates/s, {arguments.threads} threads"
    )
    if "limits" in arguments.tasks:
        _against_the_machine(arguments, limits)
    if "growth" in arguments.tasks:
        _growth(arguments)
    if "parity" in arguments.tasks:
        _parity(arguments)
    if "passes" in arguments.tasks:
        _passes(arguments)
    if "dispatch" in arguments.tasks:
        _dispatch(arguments)
    if "cold" in arguments.tasks:
        _cold(arguments)
    names = [task for task in arguments.tasks if task in WORKLOADS]
    if names:
        _side_by_side(arguments, names)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2", help="sgrt's model (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=usable_threads())
    parser.add_argument(
        "--rounds", type=int, default=5, help="of each task and engine (default: %(default)s)"
    )
    known = [*WORKLOADS, "cold", "limits", "growth", "passes", "parity", "dispatch"]
    parser.add_argument("--tasks", nargs="+", choices=known, default=[*WORKLOADS, "cold", "limits"])
    parser.add_argument("--llama-server", type=Path, help="llama.cpp's llama-server")
    parser.add_argument("--llama-model", type=Path, help="its GGUF file; Q4_0 is its fastest type")
    parser.add_argument("--llama-slots", type=int, nargs="+", default=[16], help="a server for each")
    parser.add_argument("--vllm-python", type=Path, help="the Python of vLLM's environment")
    parser.add_argument("--vllm-model", type=Path, help="the Hugging Face folder of the same weights")
    parser.add_argument("--vllm-preload", default="", help="LD_PRELOAD for vLLM, as its CPU guide asks")
    parser.add_argument("--pool-tokens", type=int, default=40_000, help="of the growth table")
    return parser.parse_args()


def _bench(model: str) -> Bench:
    tokenizer = Tokenizer(open_checkpoint(model).tokenizer_data)

    def encode(text: str) -> Tokens:
        return list(tokenizer.encode(text, special=True))

    return Bench(prompts=Prompts(encode), decode=lambda tokens: tokenizer.decode(tokens))


@contextlib.contextmanager
def _peers(arguments: argparse.Namespace) -> Iterator[Sequence[Piped | LlamaServer]]:
    with contextlib.ExitStack() as stack:
        peers: list[Piped | LlamaServer] = [sgrt_peer(arguments.model, arguments.threads)]
        stack.callback(peers[0].close)
        if arguments.llama_server:
            for index, slots in enumerate(arguments.llama_slots):
                server = LlamaServer(
                    arguments.llama_server,
                    arguments.llama_model,
                    threads=arguments.threads,
                    slots=slots,
                    port=18611 + index,
                )
                stack.callback(server.close)
                peers.append(server)
        if arguments.vllm_python:
            vllm = vllm_peer(
                arguments.vllm_python, arguments.vllm_model, arguments.threads, arguments.vllm_preload
            )
            stack.callback(vllm.close)
            peers.append(vllm)
        yield peers


def _side_by_side(arguments: argparse.Namespace, names: Sequence[str]) -> None:
    bench = _bench(arguments.model)
    with _peers(arguments) as peers:
        for peer in peers:
            peer.generate(bench.prompts.short(2, 7), 8)
            peer.generate(bench.prompts.short(2, 8), 160, constrained=True)
        for name in names:
            results: dict[str, list[Result]] = {peer.name: [] for peer in peers}
            for salt in range(arguments.rounds):
                for peer in peers:
                    peer.flush()
                    results[peer.name].append(WORKLOADS[name](bench, peer, salt))
            _report(name, results, peers)
        for peer in peers:
            print(f"peak RSS {peer.name}: {peak_rss_mb(peer.process_id)} MB", flush=True)


def _report(name: str, results: dict[str, list[Result]], peers: Sequence[Peer]) -> None:
    is_rate = name in HIGHER_IS_BETTER

    def figure(peer: Peer) -> float:
        return statistics.median(r.rate if is_rate else r.seconds for r in results[peer.name])

    ours = figure(peers[0])
    cells = []
    for peer in peers:
        runs = results[peer.name]
        valid = [r.valid for r in runs if r.valid is not None]
        text = f"{peer.name} {figure(peer):.1f} tok/s" if is_rate else f"{peer.name} {figure(peer):.2f} s"
        if valid:
            text += f" ({min(valid)} of 32 valid, {runs[0].tokens} tokens)"
        if peer is not peers[0]:
            text += f" [ours is {ours / figure(peer):.2f}x]"
        cells.append(text)
    print(f"{name:9} {'; '.join(cells)}", flush=True)


def _cold(arguments: argparse.Namespace) -> None:
    """From the start of `sgrt run` to its first output, and the memory at its peak."""
    command = [sys.executable, "-m", "sgrt", "run", "Hello", "--model", arguments.model, "--max-tokens", "1"]
    command += ["--threads", str(arguments.threads)]
    times = []
    for _ in range(arguments.rounds):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.read(1)
        times.append(time.perf_counter() - start)
        process.wait()
    print(f"cold      first token after {statistics.median(times):.2f} s", flush=True)


def _against_the_machine(arguments: argparse.Namespace, limits: MachineLimits) -> None:
    """Decode against the memory's speed, prefill against the int8 peak."""
    checkpoint = open_checkpoint(arguments.model)
    with NativeDecoder(checkpoint.config, checkpoint, threads=arguments.threads) as decoder:
        config = decoder.config
        points = {
            point.context: point for point in growth.measure(decoder, pool_tokens=3000) if point.batch == 1
        }
        for context, point in points.items():
            kv = context * 4 * config.kv_width * len(config.layers)
            floor_ms = (decoder.weight_bytes + kv) / limits.read_bytes_per_s * 1e3
            print(
                f"decode    batch 1, context {context}: {point.milliseconds:.2f} ms, "
                f"{floor_ms / point.milliseconds:.0%} of the memory's speed"
            )
        seconds = growth.prefill_seconds(decoder, 1024)
        share = growth.multiplies_per_token(config) * 1024 / seconds / limits.multiplies_per_s
        print(f"prefill   1024 tokens: {1024 / seconds:.0f} tok/s, {share:.0%} of the int8 peak")


def _parity(arguments: argparse.Namespace) -> None:
    prompts = _bench(arguments.model).prompts
    for name, found in parity.measure(arguments.model, prompts, threads=arguments.threads, count=50).items():
        print(
            f"parity    {name}: {found.equal_outputs} of {found.outputs} outputs equal, "
            f"{found.equal_tokens / found.tokens:.1%} of tokens up to the first other one, best token "
            f"{found.best_tokens / found.tokens:.1%}, mean KL {found.divergence:.1e}",
            flush=True,
        )


def _passes(arguments: argparse.Namespace) -> None:
    for found in passes.measure(arguments.model, _bench(arguments.model).prompts, threads=arguments.threads):
        print(
            f"passes    {found.name}: {found.per_token:.2f} a token ({found.tokens} tokens, {found.forced} forced); "
            f"a pass has {found.mask_ms:.2f} ms of masks, {found.other_ms:.2f} ms of planning, drawing, committing",
            flush=True,
        )


def _dispatch(arguments: argparse.Namespace) -> None:
    """What Python adds to a step of one sequence."""
    found = dispatch.measure(arguments.model, _bench(arguments.model).prompts, threads=arguments.threads)
    print(
        f"dispatch  a step of one sequence: {found.step_ms:.2f} ms, of them {found.kernels_ms:.2f} ms in the kernels; "
        f"{found.share_beside:.1%} beside them",
        flush=True,
    )


def _growth(arguments: argparse.Namespace) -> None:
    """Decode steps beside what a plan's cost model, measured on the same machine, says of them."""
    with Engine(arguments.model, threads=arguments.threads) as engine:
        cost = measure_cost(engine)
    print(cost)
    checkpoint = open_checkpoint(arguments.model)
    print("batch context shared  ms a step  cost model    off")
    errors: dict[bool, list[float]] = {False: [], True: []}
    with NativeDecoder(checkpoint.config, checkpoint, threads=arguments.threads) as decoder:
        for point in growth.measure(decoder, pool_tokens=arguments.pool_tokens):
            contexts = point.batch * point.context
            read = contexts - (point.batch - 1) * point.shared
            expected = 1e3 * cost.seconds(
                passes=1, output_tokens=point.batch, output_context=contexts, context_read=read
            )
            error = expected / point.milliseconds - 1
            errors[point.shared > 0].append(abs(error))
            print(
                f"{point.batch:5} {point.context:7} {point.shared:6} {point.milliseconds:10.2f} {expected:11.2f} "
                f"{error:+6.0%}",
                flush=True,
            )
    for is_shared, off in errors.items():
        if off:
            within = sum(error <= 0.15 for error in off)
            kind = "shared prefixes" if is_shared else "nothing shared"
            print(
                f"growth    {kind}: median {statistics.median(off):.0%} off, {within} of {len(off)} within 15 %"
            )


if __name__ == "__main__":
    main()
