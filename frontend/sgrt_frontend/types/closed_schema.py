"""How pydantic's types become schemas: narrowed to what reads back as the type, or refused.

Pydantic describes some types more widely than it reads them (`HttpUrl` as any URI, `Decimal` as any string). What is
generated must have the type that was asked for, so these get a schema of their own: a part of what pydantic reads, large enough to
write every usual value.
"""

from __future__ import annotations

from decimal import Decimal

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

_STRING_KEYS = frozenset({"str", "any", "literal", "enum"})

# A last label that begins with a letter is no IPv4 address; no label holds "--", which would be Punycode.
_LABEL = "[a-z0-9]{1,20}(?:-[a-z0-9]{1,20}){0,3}"
_HOST = rf"(?:{_LABEL}\.){{0,6}}[a-z][a-z0-9]{{0,20}}"
_PATH = r"(?:/[A-Za-z0-9._~-]*){0,20}(?:\?[A-Za-z0-9._~=&-]*)?(?:#[A-Za-z0-9._~-]*)?"
_ANY_SCHEME = "[a-z][a-z0-9+]{0,20}"
_CLOCK = r"(?:[0-9]{1,2}H(?:[0-9]{1,2}M)?(?:[0-9]{1,2}S)?|[0-9]{1,2}M(?:[0-9]{1,2}S)?|[0-9]{1,2}S)"
_DURATION = rf"^P(?:[0-9]{{1,5}}D(?:T{_CLOCK})?|T{_CLOCK})$"

# Formats of pydantic that no grammar holds to.
REFUSED_FORMATS = {
    "binary": "bytes have no JSON text; use str",
    "base64": "ask for str",
    "base64url": "ask for str",
    "color": "ask for a Literal or a str with a pattern",
    "file-path": "whether a file exists is not known to a model; use str",
    "directory-path": "whether a folder exists is not known to a model; use str",
    "ipvanyaddress": "ask for ipaddress.IPv4Address or IPv6Address",
    "ipvanyinterface": "ask for ipaddress.IPv4Address or IPv6Address",
    "ipvanynetwork": "ask for a str with a pattern",
    "ipv4interface": "ask for a str with a pattern",
    "ipv6interface": "ask for a str with a pattern",
    "ipv4network": "ask for a str with a pattern",
    "ipv6network": "ask for a str with a pattern",
    "name-email": "ask for a str with a pattern",
    "regex": "patterns are no regular language; use str",
}


class ClosedSchema(GenerateJsonSchema):
    """Pydantic's generator, refusing what JSON text cannot carry back."""

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, "bytes have no JSON text; use str")

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, "JSON has no complex numbers; use two floats")

    def json_schema(self, schema: core_schema.JsonSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(
            schema, "Json[...] is JSON inside a string; ask for its type"
        )

    def multi_host_url_schema(self, schema: core_schema.MultiHostUrlSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, "URLs of several hosts: use a str with a pattern")

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        keys = schema.get("keys_schema")
        if keys is not None and keys["type"] not in _STRING_KEYS:
            return self.handle_invalid_for_json_schema(
                schema, f"keys of a JSON object are strings, not {keys['type']}; use dict[str, ...]"
            )
        return super().dict_schema(schema)

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """A JSON number with the bounds of the decimal."""
        made: JsonSchemaValue = {"type": "number"}
        bounds = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
        for name, keyword in {**bounds, "multiple_of": "multipleOf"}.items():
            if (value := schema.get(name)) is not None:
                made[keyword] = _number(Decimal(str(value)))
        places, digits = schema.get("decimal_places"), schema.get("max_digits")
        if places is not None:
            made.setdefault("multipleOf", _number(Decimal(1).scaleb(-places)))
        if digits is not None:
            limit = _number(Decimal(1).scaleb(digits - (places or 0)))
            if not made.keys() & {"maximum", "exclusiveMaximum"}:
                made["exclusiveMaximum"] = limit
            if not made.keys() & {"minimum", "exclusiveMinimum"}:
                made["exclusiveMinimum"] = -limit
            if places is None:
                made["type"] = "integer"
        return made

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        """A URL of a scheme that is allowed, with a host name, a path, a query and a fragment of plain characters."""
        allowed = schema.get("allowed_schemes")
        scheme = f"(?:{'|'.join(sorted(allowed))})" if allowed else _ANY_SCHEME
        made: JsonSchemaValue = {"type": "string", "pattern": f"^{scheme}://{_HOST}{_PATH}$"}
        if (longest := schema.get("max_length")) is not None:
            made["maxLength"] = longest
        return made

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        """An ISO 8601 duration of days, hours, minutes and seconds that a timedelta can hold."""
        return {"type": "string", "pattern": _DURATION}

    def uuid_schema(self, schema: core_schema.UuidSchema) -> JsonSchemaValue:
        version = schema.get("version")
        if version is None:
            return super().uuid_schema(schema)
        digits = "[0-9a-f]"
        pattern = f"^{digits}{{8}}-{digits}{{4}}-{version}{digits}{{3}}-[89ab]{digits}{{3}}-{digits}{{12}}$"
        return {"type": "string", "pattern": pattern}


def _number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)
