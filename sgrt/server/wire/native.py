"""Bodies of the native routes, which speak tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from sgrt.server.wire.base import JsonObject, TokenIds, Wire


class StrictWire(Wire):
    """A native body has no fields but its own."""

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())


class GenerateRequest(StrictWire):
    """Continue tokens or a text. `constraint` is a constraint value as JSON.

    What follows the first chunk of a stream is gathered for `interval_s` seconds, but not the end.
    """

    token_ids: TokenIds | None = None
    text: str | None = None
    sampling: JsonObject | None = None
    constraint: JsonObject | None = None
    priority: Annotated[int | None, Field(ge=-(2**31), lt=2**31)] = None
    deadline_s: Annotated[float | None, Field(gt=0, le=86400)] = None
    cache_salt: Annotated[str | None, Field(max_length=128)] = None
    label: Annotated[str | None, Field(max_length=256)] = None
    plan: JsonObject | None = None
    interval_s: Annotated[float | None, Field(ge=0, le=1)] = None
    stream: bool | None = None


class ScoreRequest(StrictWire):
    """Log-probabilities of continuations after one prefix, with the `top` best tokens at each place."""

    prefix: TokenIds
    continuations: list[TokenIds]
    top: Annotated[int | None, Field(ge=0)] = None
    priority: Annotated[int | None, Field(ge=-(2**31), lt=2**31)] = None
    plan: JsonObject | None = None
    cache_salt: Annotated[str | None, Field(max_length=128)] = None


class EncodeRequest(StrictWire):
    """Text to tokens."""

    text: str
    special: bool = False
    is_start: bool = False


class DecodeRequest(StrictWire):
    """Tokens to text."""

    token_ids: TokenIds


class NativeMessage(StrictWire):
    """One turn."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str


class RenderRequest(StrictWire):
    """A chat to tokens, under the model's template."""

    messages: Annotated[list[NativeMessage], Field(fail_fast=True)]
    open_assistant: bool = True
