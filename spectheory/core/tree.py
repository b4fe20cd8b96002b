"""`Tree`, a draft tree: a parent array, from which depths, ranks, children, masks and paths are computed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Int32, Int64, Shaped

from spectheory.core.checks import LARGEST_TREE, check_whole, checked
from spectheory.core.errors import InputError


class Tree:
    """A draft tree. Node 0 is the last committed token, nodes 1..budget are drafted.

    Args:
        parent: the parent of each node: `parent[0] == -1` and `0 <= parent[u] < u`. The ranks of siblings follow the
            order of their indices.

    Raises:
        InputError: `parent` is empty, not one-dimensional, not whole numbers, or has a parent after its child.
    """

    __slots__ = ("__dict__", "parent")

    parent: Int32[np.ndarray, " nodes"]

    def __init__(self, parent: Sequence[int] | Int[np.ndarray, " nodes"]) -> None:
        try:
            given: Any = np.asarray(parent)
        except ValueError:  # lists of different lengths
            given = np.array(None)
        flags = isinstance(parent, list) and any(isinstance(node, bool) for node in parent)
        if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu" or flags:
            raise InputError(f"parent must be a list of whole numbers, [-1] for the root alone, got {parent!r:.80}")
        if given.size > LARGEST_TREE:
            raise InputError(f"parent must have at most {LARGEST_TREE:,} nodes, got {given.size:,}")
        inner = given[1:]
        if given[0] != -1 or (inner < 0).any() or (inner >= np.arange(1, given.size)).any():
            shown = str(given[:12].tolist())[:-1] + (", ...]" if given.size > 12 else "]")
            raise InputError(f"parent must be -1 for node 0 and an earlier node for every other node, got {shown}")
        self.parent = given.astype(np.int32)
        self.parent.setflags(write=False)

    @classmethod
    def _unchecked(cls, parent: Sequence[int]) -> Tree:
        """`Tree(parent)` without checks, for code that builds thousands of trees that are correct by construction."""
        tree = object.__new__(cls)
        tree.parent = np.array(parent, np.int32)
        tree.parent.setflags(write=False)
        return tree

    @classmethod
    def chain(cls, budget: int) -> Tree:
        """The chain of `budget` drafted nodes. `Tree.chain(0)` is the root alone, which means no speculation."""
        check_whole("budget of a chain", budget, 0, most=LARGEST_TREE - 1)
        return cls(np.arange(-1, budget))

    @classmethod
    def k_ary(cls, fanout: int, depth: int) -> Tree:
        """The full tree in which every node above `depth` has `fanout` children."""
        check_whole("fanout", fanout, 1, most=LARGEST_TREE)
        check_whole("depth", depth, 0, most=LARGEST_TREE)
        inner = 0
        for level in range(depth):
            inner += fanout**level
            if inner * fanout >= LARGEST_TREE:
                raise InputError(
                    f"k_ary(fanout={fanout}, depth={depth}) has more than {LARGEST_TREE:,} nodes: use a smaller depth"
                )
        return cls(np.concatenate([[-1], np.repeat(np.arange(inner), fanout)]))

    @classmethod
    @checked
    def from_paths(cls, paths: Iterable[Iterable[int]]) -> Tree:
        """The tree whose drafted nodes have these paths of ranks from the root. Nodes are ordered by (depth, path).

        Raises:
            InputError: a path is empty or given twice, or the path to its parent or previous sibling is missing.
        """
        rows = sorted((tuple(int(rank) for rank in path) for path in paths), key=lambda path: (len(path), path))
        index: dict[tuple[int, ...], int] = {(): 0}
        for path in rows:
            if not path or path in index:
                raise InputError(f"paths must be distinct and not empty, got {path} {'twice' if path else ''}".rstrip())
            if path[:-1] not in index:
                raise InputError(f"paths must contain the parent {path[:-1]} of the path {path}")
            if path[-1] < 0 or (path[-1] > 0 and (*path[:-1], path[-1] - 1) not in index):
                raise InputError(f"paths must use ranks 0, 1, ... without gaps: {path} has no previous sibling")
            index[path] = len(index)
        return cls([-1] + [index[path[:-1]] for path in rows])

    @property
    def identity(self) -> str:
        """A hash of the tree, 16 hexadecimal digits. It identifies the tree in provenances."""
        return hashlib.sha256(str(self.parent.tolist()).encode()).hexdigest()[:16]

    @property
    def budget(self) -> int:
        """Number of drafted nodes, root excluded."""
        return len(self.parent) - 1

    @cached_property
    def depth(self) -> Int32[np.ndarray, " nodes"]:
        """Number of edges from the root to each node."""
        return along_paths(self.parent, np.append(np.int32(0), np.ones(self.budget, np.int32)), np.add)

    @cached_property
    def rank(self) -> Int32[np.ndarray, " nodes"]:
        """0-based position among siblings in index order; 0 for the root."""
        order = np.argsort(self.parent, kind="stable")
        sorted_parent = self.parent[order]
        first = np.searchsorted(sorted_parent, sorted_parent)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order)) - first
        return rank

    def children(self, node: int) -> Int64[np.ndarray, " children"]:
        """The children of `node` in order of rank."""
        if not 0 <= node <= self.budget:
            raise InputError(f"node must be between 0 and {self.budget}, got {node}")
        return np.array(self.child_lists[node], np.int64)

    @cached_property
    def child_lists(self) -> tuple[tuple[int, ...], ...]:
        """For each of the budget + 1 nodes, its children in order of rank."""
        lists: list[list[int]] = [[] for _ in self.parent]
        for node, parent in enumerate(self.parent[1:].tolist(), start=1):
            lists[parent].append(node)
        return tuple(map(tuple, lists))

    @cached_property
    def max_depth(self) -> int:
        """Depth of the deepest node."""
        return int(self.depth.max())

    @property
    def is_chain(self) -> bool:
        """Whether every node has at most one child."""
        return self.max_depth == self.budget

    @cached_property
    def rows(self) -> Float[np.ndarray, " nodes"]:
        """Row of each node in a drawing: 0, 1, ... for leaves, the middle of the children for others."""
        rows = np.zeros(self.budget + 1)
        waiting, row = [0], 0
        while waiting:
            node = waiting.pop()
            if children := self.child_lists[node]:
                waiting += reversed(children)
            else:
                rows[node], row = row, row + 1
        for node in range(self.budget, -1, -1):
            if children := self.child_lists[node]:
                rows[node] = (rows[children[0]] + rows[children[-1]]) / 2
        return rows

    def ancestor_mask(self) -> Bool[np.ndarray, "nodes nodes"]:
        """The tree attention mask: [u, v] is true if v is u or an ancestor of u."""
        mask = np.eye(len(self.parent), dtype=bool)
        for node, parent in enumerate(self.parent[1:].tolist(), start=1):
            mask[node] |= mask[parent]
        return mask

    def to_paths(self) -> list[tuple[int, ...]]:
        """For each drafted node, in order of index, its path of ranks from the root."""
        paths: list[tuple[int, ...]] = [()]
        for node in range(1, len(self.parent)):
            paths.append((*paths[self.parent[node]], int(self.rank[node])))
        return paths[1:]

    def level_widths(self) -> Int64[np.ndarray, " levels"]:
        """Number of nodes with children at depth 0, 1, ...: the tokens of each draft forward.

        Entry 0 is for the root: a chain of n nodes has n ones, and the root alone has no entry.
        """
        inner = np.zeros(len(self.parent), bool)
        inner[self.parent[1:]] = True
        return np.bincount(self.depth[inner], minlength=self.max_depth)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and np.array_equal(self.parent, other.parent)

    def __hash__(self) -> int:
        return hash(self.parent.tobytes())

    def __repr__(self) -> str:
        if self.is_chain:
            return f"Tree.chain({self.budget})"
        if self.budget <= 12:
            return f"Tree({self.parent.tolist()})"
        return f"<Tree of {self.budget} nodes, depth {self.max_depth}>"


def along_paths(
    parent: Int[np.ndarray, " nodes"], entries: Shaped[np.ndarray, "*rows nodes"], combine: np.ufunc
) -> Shaped[np.ndarray, "*rows nodes"]:
    """Combine `entries` (..., budget + 1) along the path from the root to each node. The root's must be neutral."""
    total, ancestor = entries, np.maximum(parent, 0)
    while ancestor.any():  # pointer doubling: log2(depth) rounds reach the root from every node
        total = combine(total, total[..., ancestor])
        ancestor = ancestor[ancestor]
    return total
