"""Maximum flow by Dinic's algorithm, in the number type of the capacities: exact for int and Fraction."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
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

    def sent(node: int, most: Any) -> Any:
        """Send up to `most` along a shortest path from `node`, and return how much. Edge e ^ 1 is the reverse of e."""
        if node == sink:
            return most
        while tried[node] < len(leaving[node]):
            edge = leaving[node][tried[node]]
            if room[edge] > 0 and levels[heads[edge]] == levels[node] + 1:
                flow = sent(heads[edge], min(most, room[edge]))
                if flow > 0:
                    room[edge] -= flow
                    room[edge ^ 1] += flow
                    return flow
            tried[node] += 1
        return 0

    while (levels := _levels(heads, room, leaving, source))[sink] >= 0:
        tried = [0] * len(leaving)
        while sent(source, inf) > 0:
            pass
    return room[1::2]


def _levels(heads: list[int], room: list[Any], leaving: list[list[int]], source: int) -> list[int]:
    """Distance of each node from the source along edges with remaining capacity; -1 if there is no path."""
    levels = [-1] * len(leaving)
    levels[source], reached = 0, [source]
    for node in reached:  # the list grows during the loop
        for edge in leaving[node]:
            if room[edge] > 0 and levels[heads[edge]] < 0:
                levels[heads[edge]] = levels[node] + 1
                reached.append(heads[edge])
    return levels
