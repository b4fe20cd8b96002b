"""Small drafts, all their trees, and the published searches rendered in plain tuples."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from spectheory.search import Drafted, MarkovDraft

fixed = settings(derandomize=True)
close = {"rel": 1e-12, "abs": 0}

Node = tuple[float, int, int, Any, int]
"""(-probability, depth, rank, parent, token): a node that is its own sort key."""

ROOT: Node = (-1.0, 0, 0, (), -1)
Children = Callable[[Node], list[Node]]


@st.composite
def distributions(draw: st.DrawFn, tokens: int) -> list[float]:
    if draw(st.booleans()):  # ties and zeros, exact in binary
        cuts = sorted(draw(st.lists(st.integers(0, 4), min_size=tokens - 1, max_size=tokens - 1)))
        return [(high - low) / 4 for low, high in pairwise([0, *cuts, 4])]
    weights = np.array(draw(st.lists(st.floats(0.01, 1), min_size=tokens, max_size=tokens)))
    return (weights / weights.sum()).tolist()


@st.composite
def drafts(draw: st.DrawFn) -> MarkovDraft:
    tokens = draw(st.integers(2, 3))
    return MarkovDraft(np.array([draw(distributions(tokens)) for _ in range(tokens)]), draw(st.integers(0, tokens - 1)))


UNIFORM = MarkovDraft(np.full((3, 3), 1 / 3))
CERTAIN = MarkovDraft(np.eye(3)[[1, 2, 0]])
ORPHANING = MarkovDraft(np.array([[0.5, 0.5], [0.0, 1.0]]), 0)
budgets = st.integers(1, 6)


@cache
def all_trees(tokens: int, budget: int) -> np.ndarray:
    """(trees, budget) nodes of every subtree of the full tree with at most `budget` nodes, padded with its root.

    The children of node u of the full tree are tokens * u + 1, ..., tokens * u + tokens.
    """
    found = []

    def grow(chosen: tuple[int, ...], uncovered: tuple[int, ...]) -> None:
        found.append(chosen + (0,) * (budget - len(chosen)))
        for i, node in enumerate(uncovered if len(chosen) < budget else ()):  # one passed over is not taken later
            below = tuple(range(tokens * node + 1, tokens * node + tokens + 1))
            grow((*chosen, node), uncovered[i + 1 :] + below)

    grow((), tuple(range(1, tokens + 1)))
    return np.array(found)


def best_by_depth(draft: MarkovDraft, budget: int) -> np.ndarray:
    """(budget + 1,) the largest sum of probabilities of any tree of `budget` nodes, none deeper than 0, 1, ..."""
    tokens = len(draft.q)
    probability, last, level = [1.0], [draft.start], [0]
    for node in range((tokens**budget - 1) // (tokens - 1)):
        probability += (probability[node] * draft.q[last[node]]).tolist()
        last += range(tokens)
        level += [level[node] + 1] * tokens
    trees = all_trees(tokens, budget)
    worth, height = np.array([0.0, *probability[1:]])[trees].sum(1), np.array(level)[trees].max(1)
    return np.array([worth[height <= depth].max() for depth in range(budget + 1)])


def optimum(draft: MarkovDraft, budget: int) -> float:
    return 1 + best_by_depth(draft, budget)[-1]


def children_of(draft: MarkovDraft) -> Children:
    def children(node: Node) -> list[Node]:
        distribution = draft.q[draft.start if node is ROOT else node[4]].tolist()
        ranked = sorted(range(len(distribution)), key=lambda token: (-distribution[token], token))
        return [(node[0] * distribution[token], node[1] + 1, rank, node, token) for rank, token in enumerate(ranked)]

    return children


def nodes_of(drafted: Drafted) -> list[Node]:
    """The drafted nodes, rebuilt from the arrays."""
    nodes = [ROOT]
    for u in range(1, drafted.tree.budget + 1):
        above = nodes[drafted.tree.parent[u]]
        rank, token = int(drafted.tree.rank[u]), int(drafted.tokens[u])
        nodes.append((-float(drafted.probability[u]), above[1] + 1, rank, above, token))
    return nodes[1:]


def likely(nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if node[0] < 0]


def worth(nodes: list[Node]) -> float:
    return -sum(node[0] for node in nodes)


def plain_opt_tree(children: Children, n: int, delta: float) -> tuple[list[Node], int, int]:
    layer = sorted(children(ROOT))[:n]
    tree, before, calls, fed = layer, 0.0, 1, 1
    while calls < n and worth(sorted(tree)[:n]) - before > delta:
        before = worth(sorted(tree)[:n])
        calls, fed = calls + 1, fed + len(likely(layer))
        layer = sorted(child for node in layer for child in children(node))[:n]
        tree = tree + layer
    return likely(sorted(tree)[:n]), calls, fed


def plain_eagle2(children: Children, top_k: int, depth: int, n: int) -> tuple[list[Node], int, int]:
    layer, pool, fed = [ROOT], [], 0
    for _ in range(depth):
        fed += len(likely(layer))
        found = [child for node in layer for child in children(node)[:top_k]]
        pool += found
        layer = sorted(found)[:top_k]
    return likely(sorted(pool)[:n]), depth, fed


def plain_salf(
    children: Children, budget: int, th: float, batch: int, *, ends: bool = True
) -> tuple[list[Node], list[float], int]:
    """As printed, N with the root; `ends` is our repair. The sums S_i are one more than the draft calls."""
    n, tree, queue, sums, fed = budget + 1, [], [ROOT], [], 0
    while len(sums) < 1000:
        popped, queue = queue[:batch], queue[batch:]
        tree = sorted(tree + popped)[:n]
        epsilon = -tree[-1][0] if len(tree) == n else 0.0
        chosen = [node for node in popped if -node[0] > epsilon]
        sums.append(worth(chosen))
        if sums[-1] < th or (ends and not chosen):
            return likely([node for node in tree if node is not ROOT]), sums, fed
        fed += len(chosen)
        queue = sorted(queue + [child for node in chosen for child in children(node)])[:n]
    raise RecursionError("Algorithm 2 does not end")


def plain_best_first(children: Children, budget: int) -> list[Node]:
    taken, heap = [], [ROOT]
    while len(taken) <= budget:
        taken.append(heappop(heap))
        for child in children(taken[-1]):
            heappush(heap, child)
    return likely(taken[1:])
