"""A schema document: parsed once, with its subschemas found by pointer, `$id` and `$anchor`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from urllib.parse import unquote, urldefrag, urljoin

from sgrt_grammars.errors import CompileLimitExceeded, InvalidConstraint, UnsupportedConstraint
from sgrt_grammars.schema.draft import Draft, draft_of
from sgrt_grammars.schema.keywords import KEYWORDS, Children

MAX_TEXT = 32 * 1024 * 1024
MAX_EXPONENT = 400


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One subschema: its operand, where it stands, and the resource it belongs to."""

    schema: dict[str, object] | bool
    pointer: str
    resource: str
    """The absolute URI of the innermost `$id` around it ("" for a document without one)."""

    draft: Draft


class Document:
    """One schema text. Nodes are made when they are first asked for."""

    def __init__(self, text: str) -> None:
        self.digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        self.root_value = _parsed(text)
        self.draft = draft_of(self.root_value)
        self._nodes: dict[str, Node] = {}
        self._index: _Index | None = None
        self.has_dynamic_references = '"$dynamicRef"' in text or '"$recursiveRef"' in text
        self.root = self._node(self.root_value, "", "", self.draft)

    def at(self, pointer: str) -> Node:
        """The subschema at a pointer; those on the way may be asked for later."""
        known = self._nodes.get(pointer)
        if known is not None:
            return known
        ancestor = pointer
        while ancestor not in self._nodes:
            ancestor = ancestor[: ancestor.rindex("/")]
        parent = self._nodes[ancestor]
        value: object = parent.schema
        tokens = pointer[len(ancestor) + 1 :].split("/")
        for index, token in enumerate(tokens):
            if index and isinstance(value, dict) and _identifier(value, parent.draft):
                parent = self._node(
                    value, "/".join((ancestor, *tokens[:index])), parent.resource, parent.draft
                )
            step = token.replace("~1", "/").replace("~0", "~")
            value = value[int(step)] if isinstance(value, list) else value[step]  # type: ignore[index]  # it was there
        return self._node(value, pointer, parent.resource, parent.draft)

    def child(self, parent: Node, *path: str | int) -> Node:
        """The subschema below `parent` along keys and indices."""
        pointer = parent.pointer + "".join(f"/{_escaped(step)}" for step in path)
        known = self._nodes.get(pointer)
        if known is not None:
            return known
        value: object = parent.schema
        for step in path:
            value = value[step]  # type: ignore[index]  # the path was checked with the operand
        return self._node(value, pointer, parent.resource, parent.draft)

    def _node(self, value: object, pointer: str, base: str, draft: Draft) -> Node:
        known = self._nodes.get(pointer)
        if known is not None:
            return known
        if not isinstance(value, dict | bool):
            raise InvalidConstraint("a schema must be an object or a boolean", pointer=pointer)
        resource = base
        if isinstance(value, dict):
            identifier = _identifier(value, draft)
            resource = urljoin(base, identifier) if identifier else base
            if identifier and pointer and "$schema" in value:
                draft = draft_of(value)
        node = self._nodes[pointer] = Node(value, pointer, resource, draft)
        return node

    def resolve(self, node: Node, reference: str, keyword: str) -> Node:
        """The subschema that a reference in `node` points to."""
        uri, fragment = urldefrag(urljoin(node.resource, reference) if reference[:1] != "#" else reference)
        resource = node.resource if reference[:1] == "#" else uri
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._anchored(node, resource, fragment, keyword)
        base = self._resource_root(node, resource, keyword)
        return self._walk(base, fragment, node, keyword)

    def _anchored(self, node: Node, resource: str, name: str, keyword: str) -> Node:
        self._resource_root(node, resource, keyword)
        found = self.index.anchors.get((resource, name))
        if found is None:
            raise InvalidConstraint(
                f"{keyword} names no anchor of this schema: {name!r}", pointer=node.pointer
            )
        return found

    def _resource_root(self, node: Node, resource: str, keyword: str) -> Node:
        if resource == self.root.resource:
            return self.root
        found = self.index.resources.get(resource)
        if found is None:
            raise UnsupportedConstraint(
                f"{resource!r} is not in this document",
                pointer=f"{node.pointer}/{keyword}",
                keyword=keyword,
                hint="remote schemas are never fetched: put it under $defs",
            )
        return found

    def _walk(self, base: Node, fragment: str, node: Node, keyword: str) -> Node:
        """Follow a JSON pointer from the root of a resource, minding `$id`s on the way."""
        value: object = base.schema
        pointer, resource, draft = base.pointer, base.resource, base.draft
        for token in fragment.split("/")[1:]:
            step = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                raise InvalidConstraint(f"{keyword} points to nothing: {fragment!r}", pointer=node.pointer)
            pointer += f"/{_escaped(step)}"
            if pointer in self._nodes:
                known = self._nodes[pointer]
                resource, draft = known.resource, known.draft
            elif isinstance(value, dict) and _identifier(value, draft):
                resource = urljoin(resource, _identifier(value, draft))
        parent = urljoin(base.resource, resource)
        return self._node(value, pointer, parent, draft)

    @property
    def index(self) -> _Index:
        """All `$id`s and anchors of the document, found when the first of them is asked for."""
        if self._index is None:
            self._index = _Index(self)
        return self._index


class _Index:
    """Resources by URI, anchors by (resource, name); dynamic anchors apart as well."""

    def __init__(self, document: Document) -> None:
        self.resources: dict[str, Node] = {document.root.resource: document.root}
        self.anchors: dict[tuple[str, str], Node] = {}
        self.dynamic_anchors: dict[tuple[str, str], Node] = {}
        stack = [document.root]
        while stack:
            node = stack.pop()
            if not isinstance(node.schema, dict):
                continue
            self._add(node)
            stack += [document.child(node, *path) for path in subschema_paths(node.schema)]

    def _add(self, node: Node) -> None:
        assert isinstance(node.schema, dict), "only an object holds names"
        identifier = _identifier(node.schema, node.draft)
        if identifier:
            self.resources.setdefault(node.resource, node)
        raw = node.schema.get("$id", node.schema.get("id"))
        if node.draft <= Draft.DRAFT_7 and isinstance(raw, str) and raw.startswith("#") and len(raw) > 1:
            self.anchors[node.resource, raw[1:]] = node
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = node.schema.get(keyword)
            if isinstance(name, str):
                self.anchors[node.resource, name] = node
                if keyword == "$dynamicAnchor":
                    self.dynamic_anchors[node.resource, name] = node


def subschema_paths(schema: dict[str, object]) -> Iterator[tuple[str | int, ...]]:
    """The paths from a schema to its direct subschemas, definitions included."""
    for name, operand in schema.items():
        row = KEYWORDS.get(name)
        if row is None or row.children is Children.NONE:
            continue
        if isinstance(operand, dict) and row.children in (
            Children.MAP,
            Children.MAP_OR_NAMES,
            Children.DEFINITIONS,
        ):
            yield from ((name, key) for key, one in operand.items() if isinstance(one, dict | bool))
        elif isinstance(operand, dict | bool) and row.children is not Children.LIST:
            yield (name,)
        elif isinstance(operand, list):
            yield from ((name, index) for index, one in enumerate(operand) if isinstance(one, dict | bool))


def _identifier(schema: dict[str, object], draft: Draft) -> str:
    """The URI that `$id` (or draft 4's `id`) gives to a resource; "" when there is none.

    Up to draft 7 a `$ref` hides its siblings, `$id` among them, and a bare fragment is an anchor.
    """
    value = schema.get("$id")
    if value is None and draft is Draft.DRAFT_4:
        value = schema.get("id")
    if not isinstance(value, str) or value.startswith("#"):
        return ""
    if draft <= Draft.DRAFT_7 and "$ref" in schema:
        return ""
    return urldefrag(value)[0]


def _escaped(step: str | int) -> str:
    text = str(step)
    return text.replace("~", "~0").replace("/", "~1") if "~" in text or "/" in text else text


def _parsed(text: str) -> object:
    if len(text) > MAX_TEXT:
        raise CompileLimitExceeded(f"a schema of {len(text)} characters", limit="text")
    try:
        return json.loads(text, parse_float=_decimal, parse_constant=_no_constant)
    except RecursionError as error:
        raise CompileLimitExceeded("the schema's JSON nests too deep", limit="depth") from error
    except ValueError as error:
        raise InvalidConstraint(f"the schema is not JSON: {error}") from error


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value and abs(value.adjusted()) > MAX_EXPONENT:
        raise ValueError(f"the number {text} is beyond the range of numbers")
    return value


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is not JSON")
