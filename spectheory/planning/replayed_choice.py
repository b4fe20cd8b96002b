"""The fastest tree, verifier and draw rule together, by replay on recorded texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import product
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Float

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.candidates import Candidates, Progress, ignore_progress
from spectheory.planning.replayed_options import BUDGETS, Option, ReplayedOptions, fastest, paying
from spectheory.replay import CycleChain, GreedyText, Replays

MOVES = 60
"""Trees that the local search replays at most."""
PROPOSED = 3
"""Nodes that are proposed for adding, and for removing, in each round of the local search."""


class ReplayedChoice:
    """Finds the fastest tree and verifier: all of them are replayed on the same recorded texts.

    The rates propose trees: for each of `BUDGETS` the fastest tree, the tree of highest block efficiency and the chain.
    On greedy texts, `counted_paths` proposes more trees: it counts the paths of ranks at the positions where cycles of
    the fastest tree so far start. The fastest candidate is then improved by adding and removing leaves. A change
    is kept only if its gain is larger than its standard error over texts, so that the search does not fit the noise of
    the recorded texts. No tree is deeper than half the median text, so that a few long texts do not decide alone.

    Args:
        replays: the texts.
        candidates: the candidates by the rates.
        progress: callback to which the search reports its progress.

    Raises:
        InputError: the texts are too short to replay any tree.
    """

    def __init__(self, replays: Replays, candidates: Candidates, progress: Progress = ignore_progress) -> None:
        self.replays, self.candidates, self.progress = replays, candidates, progress
        self.options = ReplayedOptions(replays)
        if self.options.deepest < 1:
            raise InputError(
                "texts are too short to plan with: half of them must be at least 2 tokens longer than the position "
                f"{replays.first} of the first cycle; record more tokens per prompt"
            )

    def fastest(self, latency: Latency, context: int) -> Option | None:
        """The fastest option, improved leaf by leaf; None if none is faster than plain decoding."""
        best = self._candidate(latency, context)
        return paying([self._improved(best, latency, context)] if best else [], latency, context)

    def fastest_candidate(self, latency: Latency, context: int) -> Option | None:
        """The fastest candidate; None if none is faster than plain decoding."""
        best = self._candidate(latency, context)
        return paying([best] if best else [], latency, context)

    def _candidate(self, latency: Latency, context: int) -> Option | None:
        """The fastest of the trees that the rates propose, and of those counted where its cycles start."""
        best = self._fastest(self.proposed(latency, context), latency, context)
        return self._fastest([best.tree, *self._counted(best)], latency, context) if best else None

    def _counted(self, best: Option) -> list[Tree]:
        """The trees of `counted_paths` at each of `BUDGETS`; none on texts without ranks."""
        texts = [text for text in self.replays.texts if isinstance(text, GreedyText)]
        if not texts:
            return []
        kept, limits = self.replays.kept(best.tree, best.verifier), self.candidates.limits
        held = [max(0, len(rows) - best.tree.max_depth) for rows in kept]  # starts from which a whole cycle fits
        whole = [CycleChain(rows[:n], self.replays.first).starts for rows, n in zip(kept, held, strict=True)]
        starts = [np.pad(row, (0, len(text) - len(row))) for text, row in zip(texts, whole, strict=True)]
        paths = counted_paths(
            texts,
            starts,
            self.candidates.acceptance,
            budget=limits.max_budget,
            depth=min(limits.max_depth or self.options.deepest, self.options.deepest),
            fanout=min(limits.max_fanout or limits.max_budget, texts[0].candidates or limits.max_budget),
        )
        return [tree for tree in counted_trees(paths, BUDGETS) if self.options.can_judge(tree)]

    def _fastest(self, trees: list[Tree], latency: Latency, context: int) -> Option | None:
        """The fastest option for these trees; None if there is no tree."""
        options = []
        for number, tree in enumerate(trees):
            self.progress(number, len(trees))
            options += self.options.of(tree)
        return fastest(options, latency, context)

    def proposed(self, latency: Latency, context: int) -> list[Tree]:
        """The trees that the rates propose at each of `BUDGETS`: the fastest tree, the best tree, and the chain."""
        found, speedups = self.candidates, self.candidates.speedups(latency, context)
        numbers: set[int] = set()
        for budget in (budget for budget in BUDGETS if budget <= found.limits.max_budget):
            numbers |= {int(found.free[budget]), int(found.chains[budget])}
            if len(same := found.of_budget(budget)):
                numbers.add(found.fastest(speedups, same))
        return [tree for tree in map(found.tree, sorted(numbers)) if self.options.can_judge(tree)]

    def _improved(self, best: Option, latency: Latency, context: int) -> Option:
        """`best` after changes of single leaves that pay."""
        tried = {best.tree}
        while len(tried) < MOVES:
            changed = [tree for tree in self._neighbours(best.tree) if tree not in tried]
            tried |= set(changed)
            options = [option for tree in changed for option in self.options.of(tree, best.verifier)]
            better = fastest((one for one in options if _pays(one, best, latency, context)), latency, context)
            if better is None:
                break
            best = better
        return best

    def _neighbours(self, tree: Tree) -> Iterator[Tree]:
        """Trees with a leaf more, a leaf less, or both, within the limits: the most promising ones by the rates."""
        paths = set(tree.to_paths())
        inner = {path[:-1] for path in paths} | {_before(path) for path in paths}
        fresh = {(*path, 0) for path in (*paths, ())} | {(*path[:-1], path[-1] + 1) for path in paths}
        added = sorted(fresh - paths, key=self._value)[-PROPOSED:]
        removed = sorted(paths - inner, key=self._value)[:PROPOSED]
        for new, old in product((None, *added), (None, *removed)):
            changed = (paths - {old}) | ({new} if new else set())
            if changed and changed != paths and (new is None or old is None or old not in (new[:-1], _before(new))):
                tree = Tree.from_paths(changed)
                if self.options.can_judge(tree) and self.candidates.limits.allows(tree):
                    yield tree

    def _value(self, path: Sequence[int]) -> float:
        """The product of the rates on a path of ranks."""
        acceptance = self.candidates.acceptance
        return prod(
            float(acceptance.row(depth)[rank]) if rank < acceptance.ranks else 0.0 for depth, rank in enumerate(path)
        )


def _before(path: tuple[int, ...]) -> tuple[int, ...]:
    """The sibling of the rank before."""
    return (*path[:-1], path[-1] - 1)


def _pays(option: Option, best: Option, latency: Latency, context: int) -> bool:
    """Whether `option` is faster by more than the standard error of the difference, texts paired."""
    speeds = [one.speedup(latency, context) for one in (option, best)]
    influences = [
        speed * (one.replayed.emitted / one.replayed.emitted.sum() - one.replayed.cycles / one.replayed.cycles.sum())
        for speed, one in zip(speeds, (option, best), strict=True)
    ]
    error = float(np.sqrt(((influences[0] - influences[1]) ** 2).sum()))
    return speeds[0] - speeds[1] > error


WEIGHT = 500
"""Visits of a node at which its own counts weigh as much as the rates of its depth."""


def counted_paths(
    texts: Sequence[GreedyText],
    starts: Sequence[np.ndarray],
    acceptance: Acceptance,
    *,
    budget: int,
    depth: int,
    fanout: int,
) -> list[tuple[int, ...]]:
    """The paths of ranks to the nodes of the best tree, best first; the first b paths are the best tree of b nodes.

    A node that n cycles visit, of which h continue with rank r, is continued with rank r with the chance (h + w a) / (n
    + w): w is `WEIGHT`, a is the rate of its depth and this rank. Rates alone cannot tell the paths of a depth apart;
    counts alone are noise where few cycles pass. Chances that rise with rank are cut, because siblings are drafted in
    the order of their ranks.

    Args:
        texts: the texts.
        starts: for each text (n,) the probability that a cycle starts at each position.
        acceptance: rates by depth and rank.
        budget: the largest number of drafted nodes.
        depth: the depth of the deepest node.
        fanout: the largest number of children of a node.
    """
    rows = [_joined(texts, level) for level in range(max(len(text.ranks) for text in texts))]
    weights = np.concatenate([np.append(each, 0.0) for each in starts])
    visits = np.flatnonzero(weights)
    ranks = min(acceptance.ranks, fanout)

    def chances(path: tuple[int, ...], positions: np.ndarray) -> Float[np.ndarray, " ranks"]:
        """Chance of each rank after a path that cycles follow up to `positions`, given that they do."""
        taken, weight = rows[min(len(path), len(rows) - 1)][positions], weights[positions - len(path)]
        counts = np.bincount(taken + 1, weight, ranks + 1)[1 : ranks + 1]
        shrunk = (counts + WEIGHT * acceptance.row(len(path))[:ranks]) / (weight.sum() + WEIGHT)
        return np.minimum.accumulate(shrunk)

    found: list[tuple[int, ...]] = []
    first = chances((), visits)
    queue: list[tuple[Any, ...]] = [(-first[0], (0,), 1.0, first, visits)]
    while queue and len(found) < budget:
        value, path, above, siblings, positions = heappop(queue)
        found.append(path)
        if path[-1] + 1 < ranks:
            sibling = (*path[:-1], path[-1] + 1)
            heappush(queue, (-above * siblings[sibling[-1]], sibling, above, siblings, positions))
        if len(path) < depth:
            passed = positions[rows[min(len(path) - 1, len(rows) - 1)][positions] == path[-1]] + 1
            below = chances(path, passed)
            heappush(queue, (value * below[0], (*path, 0), -value, below, passed))
    return found


def counted_trees(paths: Sequence[tuple[int, ...]], budgets: Sequence[int]) -> list[Tree]:
    """The trees of the first paths, one for each of the budgets that there are paths for."""
    return [Tree.from_paths(paths[:budget]) for budget in budgets if budget <= len(paths)]


def _joined(texts: Sequence[GreedyText], level: int) -> np.ndarray:
    """The ranks of all texts at a depth, with a miss after the end of each text."""
    return np.concatenate([np.append(text.ranks[min(level, len(text.ranks) - 1)], -1) for text in texts])
