"""The fastest tree, verifier and draw rule together, by replay on recorded texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.draft import DrawRule
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.otlp import RRS, Naive
from spectheory.planning.candidates import Candidates, Limits, Progress, ignore_progress
from spectheory.replay import Replayed, Replays
from spectheory.verify import Block, Greedy, TopDown, Traversal, Verifier, name_of

BUDGETS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256)
"""Budgets at which the candidates are replayed. The local search reaches those between."""
PLANNED_VERIFIERS: tuple[Verifier, ...] = TopDown(Naive()), TopDown(RRS()), Traversal(), Block()
"""The verifiers of sampled text among which a plan chooses: those that are lossless for planned trees or chains, and
that no other of them beats everywhere."""
MOVES = 60
"""Trees that the local search replays at most."""
PROPOSED = 3
"""Nodes that are proposed for adding, and for removing, in each round of the local search."""


@dataclass(frozen=True)
class Option:
    """A tree, its verifier and its draw rule, with its cycles on the recorded texts."""

    tree: Tree
    verifier: Verifier
    rule: DrawRule
    replayed: Replayed

    def speedup(self, latency: Latency, context: int) -> float:
        """Predicted speedup over plain decoding."""
        cycle = latency.cycle(self.tree, context, name_of(self.verifier))
        return self.replayed.tau * latency.plain(context) / cycle


@dataclass
class ReplayedChoice:
    """Searches trees and verifiers on the same texts. A tree is replayed once for each verifier and then kept.

    Candidates come from the rates: for each of `BUDGETS` the fastest tree and the chain. The fastest of them is then
    improved by adding and removing leaves. A change is kept only if its gain is larger than its standard error over
    texts, so that the search does not fit the noise of the recorded texts.

    Attributes:
        replays: the texts.
        acceptance: rates by depth and rank, from which candidates and changes are proposed.
        limits: limits of the search.
        greedy: whether the texts are greedy decoding's.
        progress: callback to which the search reports its progress.
    """

    replays: Replays
    acceptance: Acceptance
    limits: Limits
    progress: Progress = ignore_progress
    _known: dict[tuple[Tree, Verifier], Option] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._candidates = Candidates(self.acceptance, self.limits)

    def fastest(self, latency: Latency, context: int) -> Option | None:
        """The fastest option; None if none is faster than plain decoding."""
        trees = self._trees(latency, context)
        options = []
        for number, tree in enumerate(trees):
            self.progress(number, len(trees))
            options += [self._option(tree, verifier, rule) for verifier, rule in self.verifiers(tree)]
        best = max(options, key=lambda option: option.speedup(latency, context))
        best = self._improved(best, latency, context)
        return best if best.speedup(latency, context) > 1 else None

    def verifiers(self, tree: Tree) -> Iterator[tuple[Verifier, DrawRule]]:
        """The verifiers for a tree, each with the rule by which `PlannedTree` draws it."""
        if self.replays.greedy:
            yield Greedy(), DrawRule.TOP_K
        else:
            rule = DrawRule.IID if tree.is_chain else DrawRule.NO_REPLACEMENT
            for verifier in PLANNED_VERIFIERS:
                if rule in verifier.rules and (tree.is_chain or verifier.takes == "trees"):
                    yield verifier, rule

    def _trees(self, latency: Latency, context: int) -> list[Tree]:
        """The candidates at each of `BUDGETS`: the fastest tree by the rates, the best tree, and the chain."""
        found, speedups = self._candidates, self._candidates.speedups(latency, context)
        numbers: set[int] = set()
        for budget in (budget for budget in BUDGETS if budget <= self.limits.max_budget):
            numbers |= {int(found.free[budget]), int(found.chains[budget])}
            numbers.add(found.fastest(speedups, found.of_budget(budget)))
        return [found.tree(number) for number in sorted(numbers)]

    def _option(self, tree: Tree, verifier: Verifier, rule: DrawRule) -> Option:
        if (tree, verifier) not in self._known:
            self._known[tree, verifier] = Option(tree, verifier, rule, self.replays.replay(tree, verifier, rule))
        return self._known[tree, verifier]

    def _improved(self, best: Option, latency: Latency, context: int) -> Option:
        """`best` after changes of single leaves that pay."""
        tried = {best.tree}
        while len(tried) < MOVES:
            changed = [tree for tree in self._neighbours(best.tree) if tree not in tried]
            tried |= set(changed)
            options = [
                self._option(tree, best.verifier, rule)
                for tree in changed
                for verifier, rule in self.verifiers(tree)
                if verifier == best.verifier
            ]
            better = [option for option in options if _pays(option, best, latency, context)]
            if not better:
                break
            best = max(better, key=lambda option: option.speedup(latency, context))
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
                if self.limits.allows(tree):
                    yield tree

    def _value(self, path: Sequence[int]) -> float:
        """The product of the rates on a path of ranks."""
        rates = [
            self.acceptance.row(depth)[rank] if rank < self.acceptance.ranks else 0 for depth, rank in enumerate(path)
        ]
        return float(np.prod(rates))


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
