"""The OpenAPI document of the server, made from the models that validate its requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

Json = dict[str, object]

_REF = "#/components/schemas/{model}"


class Operation(NamedTuple):
    """One route: `request` validates its body; `streams` says that it may answer with events."""

    method: str
    path: str
    summary: str
    request: type[BaseModel] | None
    streams: bool


def openapi_document(operations: Sequence[Operation], *, version: str) -> Json:
    """OpenAPI 3.1 for these operations."""
    models = sorted({item.request for item in operations if item.request}, key=lambda model: model.__name__)
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REF, by_alias=True
    )
    schemas: dict[str, object] = dict(definitions.get("$defs", {}))
    schemas["Error"] = _error_schema()
    paths: dict[str, Json] = {}
    for item in operations:
        path = item.path.replace("{name:path}", "{name}")
        paths.setdefault(path, {})[item.method.lower()] = _operation(item, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sgrt",
            "version": version,
            "description": "Structured generation over an OpenAI-compatible API, and native routes that speak tokens.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _operation(item: Operation, path: str) -> Json:
    content: Json = {"application/json": {"schema": {"type": "object"}}}
    if item.path == "/metrics":
        content = {"text/plain": {"schema": {"type": "string"}}}
    if item.streams:
        content["text/event-stream"] = {}
    operation: Json = {
        "summary": item.summary,
        "operationId": f"{item.method.lower()}{path.replace('/', '_').replace('{', '').replace('}', '')}",
        "responses": {"200": {"description": "The answer.", "content": content}, **_refusals()},
    }
    parameters = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
    if parameters:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in parameters
        ]
    if item.request is not None:
        reference: Mapping[str, str] = {"$ref": _REF.format(model=item.request.__name__)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return operation


def _refusals() -> Json:
    schema = {"schema": {"$ref": _REF.format(model="Error")}}
    texts = {
        "400": "The request is wrong; `param` names the field.",
        "401": "A valid key is needed.",
        "404": "There is no such model, route or response.",
        "413": "The body is too large.",
        "415": "The body is not JSON.",
        "429": "The deadline passed before the first token.",
        "499": "The request was aborted.",
        "500": "The server failed.",
        "501": "The backend cannot do this.",
        "503": "The server is full or going down; Retry-After says when to come back.",
    }
    return {
        status: {"description": text, "content": {"application/json": schema}}
        for status, text in texts.items()
    }


def _error_schema() -> Json:
    text_or_null = {"type": ["string", "null"]}
    return {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "param": text_or_null,
                    "code": text_or_null,
                },
            }
        },
    }
