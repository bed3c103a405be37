"""`sgrt serve MODEL`: serve a model under the OpenAI-compatible API."""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from dataclasses import replace

from sgrt.cli.options import add_context_tokens, add_device, add_kv_cache_dtype, add_model, model_of
from sgrt.config import ComputeMode, EngineSettings, KvCacheDtype
from sgrt.engine.engine import Engine
from sgrt.errors import InvalidRequest
from sgrt.server.app import create_app
from sgrt.server.config import Limits, ServerConfig
from sgrt.server.listening import bound_sockets
from sgrt.server.serving import DrainingServer, short_collections
from sgrt_grammars.tools.formats import FORMATS


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "serve",
        help="serve the OpenAI-compatible API",
        description="Serve a model over HTTP. Listens on this machine alone unless --host says otherwise.",
    )
    add_model(parser, is_positional=True)
    _add_server_options(parser.add_argument_group("server"))
    _add_limit_options(parser.add_argument_group("limits"))
    _add_engine_options(parser.add_argument_group("engine"))


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    # Wrong settings, and a port that is taken, are told before a model is loaded.
    config = server_config(arguments)
    with ExitStack() as engines:
        sockets = bound_sockets(config.host, config.port)
        for bound in sockets:
            engines.enter_context(bound)
        engine = engines.enter_context(Engine(model_of(arguments), **engine_settings(arguments)))
        smaller = None
        if arguments.overload_model is not None:
            smaller = engines.enter_context(Engine(arguments.overload_model, **engine_settings(arguments)))
        app = create_app(engine, config, smaller=smaller)
        names = ", ".join(app.state.service.model_names)

        def announce(url: str) -> None:
            print(f"serving {names} at {url}/v1 (tools: {app.state.service.tool_format_name})", flush=True)

        with short_collections():
            DrainingServer(app, config, on_ready=announce).run(sockets)
    return 0


def server_config(arguments: argparse.Namespace) -> ServerConfig:
    """The server's settings; keys come from the command line and from SGRT_API_KEY.

    Raises:
        InvalidRequest: a setting is out of range, or an open server would be reachable from elsewhere.
    """
    if (arguments.overload == "smaller") != (arguments.overload_model is not None):
        raise InvalidRequest("--overload smaller and --overload-model go together", param="overload")
    keys = tuple(arguments.api_key or ()) or tuple(filter(None, [os.environ.get("SGRT_API_KEY", "")]))
    return ServerConfig(
        host=arguments.host,
        port=arguments.port,
        api_keys=keys,
        admin_keys=tuple(arguments.admin_key or ()),
        allow_open=arguments.allow_open,
        model_names=tuple(arguments.served_model_name or ()),
        tool_format=arguments.tool_format,
        reasoning_format=arguments.reasoning_format,
        allowed_origins=tuple(arguments.allowed_origin or ()),
        log_requests=arguments.log_requests,
        default_deadline_s=arguments.deadline_s,
        overload=arguments.overload,
        overload_max_tokens=arguments.overload_max_tokens,
        drain_timeout_s=arguments.drain_timeout_s,
        limits=replace(
            Limits(),
            inflight_sequences=arguments.max_inflight_sequences,
            inflight_prompt_tokens=arguments.max_inflight_prompt_tokens,
            sequences=arguments.max_sequences_per_request,
            body_bytes=arguments.max_body_bytes,
        ),
    )


def engine_settings(arguments: argparse.Namespace) -> EngineSettings:
    """The engine's settings: those that were given."""
    compute: ComputeMode = arguments.compute
    kv_cache_dtype: KvCacheDtype = arguments.kv_cache_dtype
    return {
        "compute": compute,
        "kv_cache_dtype": kv_cache_dtype,
        "device": arguments.device,
        "threads": arguments.threads,
        "context_tokens": arguments.context_tokens,
        "num_pages": arguments.num_pages,
        "memory_fraction": arguments.memory_fraction,
        "max_running": arguments.max_running,
        "step_tokens": arguments.step_tokens,
        "batch_invariant": arguments.batch_invariant,
        "prefix_caching": not arguments.no_prefix_caching,
        "template_limit_s": arguments.template_limit_s,
        "verbose": True,
    }


def _add_server_options(group: argparse._ArgumentGroup) -> None:
    default = ServerConfig()
    group.add_argument("--host", default=default.host, help="address to listen on (default: %(default)s)")
    group.add_argument(
        "--port", type=int, default=default.port, help="0 picks a free one (default: %(default)s)"
    )
    group.add_argument(
        "--api-key", action="append", help="a key clients must send; may be given several times"
    )
    group.add_argument("--admin-key", action="append", help="a key for /flush_cache and /server_info")
    group.add_argument("--allow-open", action="store_true", help="listen beyond this machine without a key")
    group.add_argument("--served-model-name", action="append", help="a name clients use for the model")
    group.add_argument(
        "--tool-format",
        default=default.tool_format,
        choices=("auto", "none", *FORMATS),
        help="how the model writes tool calls (default: what its template shows)",
    )
    group.add_argument(
        "--reasoning-format",
        default=default.reasoning_format,
        choices=("auto", "on", "none"),
        help="whether thoughts are told apart (default: where their marks are tokens)",
    )
    group.add_argument("--allowed-origin", action="append", help="a web origin that may call (default: none)")
    group.add_argument(
        "--log-requests", action="store_true", help="log method, path and status; never prompts"
    )
    group.add_argument(
        "--drain-timeout-s",
        type=float,
        default=default.drain_timeout_s,
        help="seconds for work in flight after the first signal (default: %(default)s)",
    )


def _add_limit_options(group: argparse._ArgumentGroup) -> None:
    limits = Limits()
    for name, value, text in (
        ("--max-inflight-sequences", limits.inflight_sequences, "outputs in flight, waiting ones among them"),
        ("--max-inflight-prompt-tokens", limits.inflight_prompt_tokens, "prompt tokens in flight"),
        ("--max-sequences-per-request", limits.sequences, "prompts x n of one request"),
        ("--max-body-bytes", limits.body_bytes, "size of a request body"),
    ):
        group.add_argument(name, type=int, default=value, help=f"{text} (default: %(default)s)")
    group.add_argument(
        "--overload",
        choices=("refuse", "shorten", "smaller"),
        default="refuse",
        help="when more than half full: nothing, shorter free answers, or a smaller model's (default: %(default)s)",
    )
    group.add_argument("--overload-model", default=None, help="the smaller model: a name, a file or a folder")
    group.add_argument("--overload-max-tokens", type=int, default=128, help="of a shortened answer")
    group.add_argument("--deadline-s", type=float, default=None, help="seconds a request may take at most")


def _add_engine_options(group: argparse._ArgumentGroup) -> None:
    add_device(group)
    group.add_argument("--threads", type=int, default=None, help="CPU threads (default: all cores)")
    group.add_argument(
        "--compute", choices=("auto", "float32"), default="auto", help="float32 is exact and slow"
    )
    add_kv_cache_dtype(group)
    add_context_tokens(group)
    group.add_argument(
        "--num-pages", type=int, default=None, help="pages of the KV pool (default: by memory)"
    )
    group.add_argument(
        "--memory-fraction",
        type=float,
        default=None,
        help="for the KV pool: of what is free (default: 0.4); of all of a GPU's memory, weights included "
        "(default: 0.9)",
    )
    group.add_argument(
        "--batch-invariant",
        action="store_true",
        help="on a GPU, outputs that do not depend on what else is computed, to the last bit; slower",
    )
    group.add_argument(
        "--max-running", type=int, default=64, help="outputs computed together (default: %(default)s)"
    )
    group.add_argument(
        "--step-tokens", type=int, default=512, help="tokens of one forward pass (default: %(default)s)"
    )
    group.add_argument(
        "--template-limit-s",
        type=float,
        default=2.0,
        help="processor seconds a chat template may take before its process is ended (default: %(default)s)",
    )
    group.add_argument("--no-prefix-caching", action="store_true", help="compute every prompt anew")
