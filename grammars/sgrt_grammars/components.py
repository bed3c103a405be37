"""Strongly connected components of a graph, without recursion in Python."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Vertex = TypeVar("Vertex", bound=Hashable)


def strong_components(
    vertices: Iterable[Vertex], successors: Callable[[Vertex], Iterable[Vertex]]
) -> list[list[Vertex]]:
    """The components (Tarjan); each comes after all components it leads to."""
    search = _Search(successors)
    for vertex in vertices:
        if vertex not in search.index:
            search.visit(vertex)
    return search.found


@dataclass(slots=True)
class _Search(Generic[Vertex]):
    """The state of one depth-first search."""

    successors: Callable[[Vertex], Iterable[Vertex]]
    index: dict[Vertex, int] = field(default_factory=dict)
    found: list[list[Vertex]] = field(default_factory=list)
    _low: dict[Vertex, int] = field(default_factory=dict)
    _path: dict[Vertex, None] = field(default_factory=dict)
    _work: list[tuple[Vertex, Iterator[Vertex]]] = field(default_factory=list)

    def visit(self, root: Vertex) -> None:
        """Visit everything that is reachable from `root`."""
        self._enter(root)
        while self._work:
            vertex, rest = self._work[-1]
            for following in rest:
                if following not in self.index:
                    self._enter(following)
                    break
                if following in self._path:
                    self._low[vertex] = min(self._low[vertex], self.index[following])
            else:
                self._leave(vertex)

    def _enter(self, vertex: Vertex) -> None:
        self.index[vertex] = self._low[vertex] = len(self.index)
        self._path[vertex] = None
        self._work.append((vertex, iter(self.successors(vertex))))

    def _leave(self, vertex: Vertex) -> None:
        self._work.pop()
        if self._work:
            parent = self._work[-1][0]
            self._low[parent] = min(self._low[parent], self._low[vertex])
        if self._low[vertex] == self.index[vertex]:
            component: list[Vertex] = []
            while not component or component[-1] != vertex:
                component.append(self._path.popitem()[0])
            self.found.append(component)
