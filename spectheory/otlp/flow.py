"""Maximum flow by Dinic's algorithm, in the number type of the capacities: exact for int and Fraction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectheory.core.arrays import zeros_like

Edge = tuple[int, int, Any]
"""(tail, head, capacity >= 0)."""


def max_flow(edges: Sequence[Edge], source: int, sink: int) -> list[Any]:
    """The flow on each edge of a maximum flow from source to sink.

    If there are several maximum flows, the order of the edges decides: a node uses its edges in this order. In floating
    point the remaining capacity of a saturated edge is exactly 0, so no tolerance is needed and the search ends.

    Cost: O(nodes^2 edges), far less for the networks of two layers in this package.
    """
    heads, room = [], []
    leaving: list[list[int]] = [[] for _ in range(1 + max(source, sink, *(max(tail, head) for tail, head, _ in edges)))]
    for tail, head, capacity in edges:
        leaving[tail].append(len(heads))
        leaving[head].append(len(heads) + 1)
        heads += [head, tail]
        room += [capacity, zeros_like(capacity)]
    while (levels := _levels(heads, room, leaving, source))[sink] is not None:
        _block(heads, room, leaving, levels, source, sink)
    return room[1::2]


def _levels(heads: list[int], room: list[Any], leaving: list[list[int]], source: int) -> list[int | None]:
    """Distance of each node from the source along edges with remaining capacity; None if there is no path."""
    levels: list[int | None] = [None] * len(leaving)
    levels[source], front, distance = 0, [source], 0
    while front:
        distance, reached = distance + 1, []
        for edge in (edge for node in front for edge in leaving[node] if room[edge] > 0):
            if levels[heads[edge]] is None:
                levels[heads[edge]] = distance
                reached.append(heads[edge])
        front = reached
    return levels


def _block(
    heads: list[int], room: list[Any], leaving: list[list[int]], levels: Sequence[int | None], source: int, sink: int
) -> None:
    """Send flow along shortest paths until each has a saturated edge. Edge e ^ 1 is the reverse of edge e."""
    tried = [0] * len(leaving)
    node, path = source, []
    while True:
        if node == sink:
            step = min(room[edge] for edge in path)
            for edge in path:
                room[edge] -= step
                room[edge ^ 1] += step
            cut = next(i for i, edge in enumerate(path) if not room[edge] > 0)
            node = heads[path[cut] ^ 1]
            del path[cut:]
        elif tried[node] < len(leaving[node]):
            edge = leaving[node][tried[node]]
            if room[edge] > 0 and levels[heads[edge]] == len(path) + 1:
                path.append(edge)
                node = heads[edge]
            else:
                tried[node] += 1
        elif path:
            node = heads[path.pop() ^ 1]
            tried[node] += 1
        else:
            return
