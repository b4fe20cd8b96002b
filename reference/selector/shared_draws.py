"""`SharedDraws`, drafted paths at one root from which the trees of all actions are cut, and Eq. (3) for each tree.

One draw is a trunk of the greatest depth, and at each node of it at which branches may begin, one path fewer than the
greatest number of paths. The tree of an action (K, L1, L2) is the first L1 tokens of the trunk with K paths after it:
the trunk itself and K - 1 of the paths that begin there, each cut after L2 tokens. Given the first L1 tokens, the rest
of the trunk is an independent draw from the draft as the other paths are, so each tree has the distribution that
`Paths` gives it, and its estimate is unbiased. Trees of one draw depend on each other, draws do not. Paths from the
root alone would not do, because after the first differing token they have no trunk in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from reference.selector.trees import ActionSpace
from spectheory.core.arrays import Vector
from spectheory.otlp import Solver

Rows = Callable[[int, int], Sequence[Vector]]
"""Function that returns the draft's distributions at the nodes from one number to another."""
Children = Callable[[Sequence[Vector], Sequence[int]], list[list[int]]]
"""Function that draws as many tokens from each distribution as the second list says."""


class Trie:
    """Drafted paths, which share the nodes of their common prefix."""

    def __init__(self, root: int) -> None:
        self.tokens, self.parent = [root], [-1]
        self.children: list[dict[int, int]] = [{}]

    def add(self, node: int, path: Sequence[int]) -> int:
        """Add `path` below `node`; returns its last node."""
        for token in path:
            known = self.children[node]
            if token not in known:
                known[token] = len(self.tokens)
                self.tokens.append(token)
                self.parent.append(node)
                self.children.append({})
            node = known[token]
        return node


@dataclass(frozen=True)
class SharedDraws:
    """Drafted paths at one root.

    Attributes:
        space: the actions.
        trie: the nodes at which target and draft are read. The last token of a path is not among them.
        q: the draft's distribution (V,) at each node.
        trunks: for each draw, the nodes of its trunk by depth, from the root on.
        branches: for each draw and each node of its trunk at which branches may begin, the nodes of the paths that
            begin there, from this node on.
    """

    space: ActionSpace
    trie: Trie
    q: list[Vector]
    trunks: list[list[int]]
    branches: list[list[list[list[int]]]]

    @classmethod
    def drawn(cls, space: ActionSpace, draws: int, trie: Trie, rows: Rows, children: Children) -> SharedDraws:
        """Draw all paths level by level, so that a model reads each level in one forward."""
        shared = cls(space, trie, [], [[0] for _ in range(draws)], [[] for _ in range(draws)])
        first = 0
        for depth in range(space.deepest):
            shared._branch(depth)
            end = len(trie.tokens)
            shared.q.extend(rows(first, end))
            growing = shared._growing(depth) if depth < space.deepest - 1 else []
            ends = [path[-1] for path in growing]
            nodes = list(dict.fromkeys(ends))
            tokens = children([shared.q[node] for node in nodes], [ends.count(node) for node in nodes])
            drawn = dict(zip(nodes, map(iter, tokens), strict=True))
            for path in growing:
                path.append(trie.add(path[-1], (next(drawn[path[-1]]),)))
            first = end
        return shared

    def _branch(self, depth: int) -> None:
        if depth <= self.space.trunk:
            for trunk, branches in zip(self.trunks, self.branches, strict=True):
                branches.append([[trunk[depth]] for _ in range(self.space.paths - 1)])

    def _growing(self, depth: int) -> list[list[int]]:
        """The paths that end at this depth and get another node. The last token of a path gets none."""
        found = list(self.trunks)
        for branches in self.branches:
            for paths in branches[max(0, depth - self.space.length + 2) : depth + 1]:
                found += paths
        return found

    def expected_tokens(self, solver: Solver, p: Sequence[Vector]) -> list[list[Any]]:
        """E[tau] of a node solver, given what is drawn, for each draw and each of `space.trees`.

        The sum of Eq. (3) is over the nodes of a tree. The nodes of each level are replaced by their mean over their
        own draw: a node with k drafts that is reached with probability r adds r times the acceptance of k drafts. This
        is unbiased as Eq. (3) is, with less variance, and exact for a tree of one level.

        Args:
            solver: a solver that is lossless for i.i.d. draws.
            p: the target's distribution (V,) at each node.
        """
        solved = _Solved(self.trie.tokens, solver, p, self.q)
        return [self._of_draw(draw, solved) for draw in range(len(self.trunks))]

    def _of_draw(self, draw: int, solved: _Solved) -> list[Any]:
        space, trunk = self.space, self.trunks[draw]
        chain = solved.levels([trunk])
        found: dict[tuple[int, int], list[Any]] = {}
        reach = [1]
        for parent, node in pairwise(trunk):
            token = self.trie.tokens[node]
            reach.append(reach[-1] * solved.distribution(parent, (token,))[token])
        for start, branches in enumerate(self.branches[draw]):
            for paths in range(2, space.paths + 1):
                drawn = [trunk[start : start + space.length], *branches[: paths - 1]]
                found[paths, start] = [reach[start] * level for level in solved.levels(drawn)]
        return [
            1 + sum(chain[: tree.length])
            if tree.paths == 1
            else 1 + sum(chain[: tree.trunk]) + sum(found[tree.paths, tree.trunk][: tree.length])
            for tree in space.trees
        ]


class _Solved:
    """What a node solver does at the nodes of a trie; each is computed once.

    `acceptance(node, drafts)` is the probability that the token emitted at a node is among so many drafts, before they
    are drawn; `distribution(node, drafts)` is the distribution of this token, given the drafts.
    """

    def __init__(self, tokens: list[int], solver: Solver, p: Sequence[Vector], q: Sequence[Vector]) -> None:
        self.tokens = tokens
        self.acceptance = cache(lambda node, drafts: solver._acceptance(p[node], q[node], drafts))
        self.distribution = cache(lambda node, drafts: solver._distribution(p[node], q[node], drafts))

    def levels(self, paths: list[list[int]]) -> list[Any]:
        """Expected number of accepted tokens at each depth of some paths from one node, if this node is reached."""
        found, level = [], {paths[0][0]: (1, paths)}
        for depth in range(1, len(paths[0]) + 1):
            found.append(sum(reach * self.acceptance(node, len(there)) for node, (reach, there) in level.items()))
            if depth == len(paths[0]):
                return found
            below: dict[int, tuple[Any, list[list[int]]]] = {}
            for node, (reach, there) in level.items():
                drafts = tuple(self.tokens[path[depth]] for path in there)
                for path, token in zip(there, drafts, strict=True):
                    chance = self.distribution(node, drafts)[token]
                    below.setdefault(path[depth], (reach * chance, []))[1].append(path)
            level = {node: one for node, one in below.items() if one[0]}
        raise AssertionError("paths have at least one node")
