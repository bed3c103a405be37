"""What a subschema has evaluated: the members and items that `unevaluated*` leaves alone."""

from __future__ import annotations

from dataclasses import dataclass

from sgrt_grammars.regex.language import Language
from sgrt_grammars.schema.document import Node
from sgrt_grammars.schema.draft import Draft
from sgrt_grammars.schema.formula import Formula
from sgrt_grammars.schema.local import child, schema_pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Evaluated keys (by name, by pattern, all) and items (a prefix, all, those that satisfy a formula)."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[Language] = frozenset()
    all_properties: bool = False
    num_items: int = 0
    all_items: bool = False
    contained: frozenset[Formula] = frozenset()

    def __or__(self, other: Seen) -> Seen:
        if other == NONE_SEEN:
            return self
        return Seen(
            names=self.names | other.names,
            patterns=self.patterns | other.patterns,
            all_properties=self.all_properties or other.all_properties,
            num_items=max(self.num_items, other.num_items),
            all_items=self.all_items or other.all_items,
            contained=self.contained | other.contained,
        )


NONE_SEEN = Seen()


def seen_by(node: Node, scope: tuple[str, ...]) -> Seen:
    """What the typed keywords of a schema evaluate."""
    schema = node.schema
    assert isinstance(schema, dict), "booleans evaluate nothing"
    properties, patterns = schema.get("properties"), schema.get("patternProperties")
    pointer = f"{node.pointer}/patternProperties"
    languages = (
        [schema_pattern(text, pointer, "patternProperties") for text in patterns]
        if isinstance(patterns, dict)
        else []
    )
    items, prefix = schema.get("items"), schema.get("prefixItems")
    listed = items if isinstance(items, list) else prefix
    contained: frozenset[Formula] = frozenset()
    if "contains" in schema and node.draft >= Draft.DRAFT_2020:
        contained = frozenset({child(schema["contains"], f"{node.pointer}/contains", scope)})
    return Seen(
        names=frozenset(properties) if isinstance(properties, dict) else frozenset(),
        patterns=frozenset(languages),
        all_properties="additionalProperties" in schema,
        num_items=len(listed) if isinstance(listed, list) else 0,
        all_items=isinstance(items, dict | bool) or (isinstance(items, list) and "additionalItems" in schema),
        contained=contained,
    )
