"""The fastest tree, verifier and draw rule together, by replay on recorded texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import product
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Float

from spectheory.core.acceptance import Acceptance
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.otlp import RRS, Naive
from spectheory.planning.candidates import ByRates, Candidates, Progress, ignore_progress
from spectheory.planning.schedule_record import OFF, Option
from spectheory.replay import GreedyText, Replays
from spectheory.verify import Block, Greedy, TopDown, Traversal, Verifier, name_of, verifier_of

BUDGETS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256)
"""Budgets at which trees and chains are replayed. The local search reaches those between."""
USUAL_LENGTHS = BUDGETS[:7]
"""Lengths of the chains whose tau is told of texts, if no others are named."""
PLANNED_VERIFIERS: tuple[Verifier, ...] = TopDown(Naive()), TopDown(RRS()), Traversal(), Block()
"""The verifiers of sampled text among which a plan chooses: those that are lossless for planned trees or chains, and
that no other of them beats everywhere, in tokens and in the time of a choice."""
MOVES = 60
"""Trees that the local search replays at most."""
PROPOSED = 3
"""Nodes that are proposed for adding, and for removing, in each round of the local search."""
WEIGHT = 500
"""Visits of a node at which its own counts weigh as much as the rates of its depth."""


class ReplayedOptions:
    """The options on the same texts. A tree is replayed once with each verifier.

    Args:
        replays: the texts.
        rates: the rates beside which they are replayed.

    Raises:
        InputError: the texts were sampled otherwise than those of the rates.
    """

    def __init__(self, replays: Replays, rates: ByRates) -> None:
        counted = rates.acceptance.provenance
        if replays.sampling and counted.temperature is not None and counted.sampling != replays.sampling:
            raise InputError(
                f"replays have texts of {replays.sampling}, but the acceptance rates have {counted.sampling}: use the "
                "rates of the same trace"
            )
        self.replays, self.rates = replays, rates
        self._known: dict[tuple[Tree, str], Option] = {}

    def of(self, tree: Tree, only: str | None = None) -> list[Option]:
        """A tree with each of `planned_verifiers`, or with the one of this name only."""
        options = []
        for verifier, rule in planned_verifiers(self.replays, tree):
            if only is None or name_of(verifier) == only:
                key = tree, name_of(verifier)
                if key not in self._known:
                    self._known[key] = Option(*key, rule.name, self.replays.replay(tree, verifier, rule))
                options.append(self._known[key])
        return options

    @property
    def known_chains(self) -> list[Option]:
        """All chains so far."""
        return [option for option in self._known.values() if option.tree.is_chain]

    @property
    def deepest(self) -> int:
        """The depth of the deepest tree that the texts can judge: half the median text, so that a few long texts do not
        decide alone.
        """
        return (int(np.median([len(text) for text in self.replays.texts])) - self.replays.first) // 2

    def can_judge(self, tree: Tree) -> bool:
        """Whether the texts can judge a tree."""
        return 0 < tree.max_depth <= self.deepest and self.replays.can_replay(tree)

    def chains(self, longest: int) -> list[Option]:
        """The chains of `BUDGETS` tokens, up to `longest`, that the texts can judge, each with every verifier."""
        chains = [Tree.chain(length) for length in BUDGETS if length <= longest]
        return [option for chain in chains if self.can_judge(chain) for option in self.of(chain)]

    def with_reach(self, option: Option) -> Option:
        """The option with the reach of its nodes. Cycles of a chain contain it already."""
        if option.replayed is None or option.tree.is_chain:
            return option
        verifier, rule = verifier_of(option.verifier or ""), DrawRule[option.rule or ""]
        reach = self.replays.reach(option.tree, verifier, rule)
        return replace(option, replayed=replace(option.replayed, reach=reach))


def fastest(options: Iterable[Option], rates: ByRates, latency: Latency, context: int) -> Option:
    """The fastest of the options, of which there is at least one; the first of those that are equally fast."""
    return max(options, key=lambda option: option.speedup(rates, latency, context))


def planned_verifiers(replays: Replays, tree: Tree) -> Iterator[tuple[Verifier, DrawRule]]:
    """The verifiers for a planned tree on these texts, each with the rule by which the tree is drawn."""
    if replays.greedy:
        yield Greedy(), DrawRule.TOP_K
        return
    rule = DrawRule.IID if tree.is_chain else DrawRule.NO_REPLACEMENT
    for verifier in PLANNED_VERIFIERS:
        if rule in verifier.rules and (tree.is_chain or verifier.takes == "trees"):
            yield verifier, rule


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
        self.options = ReplayedOptions(replays, ByRates(candidates.acceptance))
        if self.options.deepest < 1:
            raise InputError(
                "texts are too short to plan with: half of them must be at least 2 tokens longer than the position "
                f"{replays.first} of the first cycle; record more tokens per prompt"
            )

    def fastest(self, latency: Latency, context: int) -> Option:
        """The fastest candidate, improved leaf by leaf, or no speculation."""
        trees = self.proposed(latency, context)
        if not trees:
            return OFF
        best = self._fastest(trees, latency, context)
        best = self._fastest([best.tree, *self._counted(best)], latency, context)
        return fastest([OFF, self._improved(best, latency, context)], self.options.rates, latency, context)

    def _counted(self, best: Option) -> list[Tree]:
        """The trees of `counted_paths` at each of `BUDGETS`; none on texts without ranks."""
        texts = [text for text in self.replays.texts if isinstance(text, GreedyText)]
        if not texts:
            return []
        whole, limits = self.replays.starts(best.tree, verifier_of(best.verifier or "")), self.candidates.limits
        starts = [np.pad(row, (0, len(text) - len(row))) for text, row in zip(texts, whole, strict=True)]
        paths = counted_paths(
            texts,
            starts,
            self.candidates.acceptance,
            budget=limits.max_budget,
            depth=min(limits.max_depth or self.options.deepest, self.options.deepest),
            fanout=min(limits.max_fanout or limits.max_budget, texts[0].candidates or limits.max_budget),
        )
        trees = [Tree.from_paths(paths[:budget]) for budget in BUDGETS if budget <= len(paths)]
        return list(filter(self.options.can_judge, trees))

    def _fastest(self, trees: list[Tree], latency: Latency, context: int) -> Option:
        options = []
        for number, tree in enumerate(trees):
            self.progress(number, len(trees))
            options += self.options.of(tree)
        return fastest(options, self.options.rates, latency, context)

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
            paying = [one for one in options if self._pays(one, best, latency, context)]
            if not paying:
                break
            best = fastest(paying, self.options.rates, latency, context)
        return best

    def _pays(self, option: Option, best: Option, latency: Latency, context: int) -> bool:
        """Whether `option` is faster by more than the standard error of the difference, texts paired."""
        speeds, influences = [], []
        for one in (option, best):
            speeds.append(one.speedup(self.options.rates, latency, context))
            if (found := one.replayed) is not None:
                shares = found.emitted / found.emitted.sum() - found.cycles / found.cycles.sum()
                influences.append(speeds[-1] * shares)
        error = float(np.sqrt(((influences[0] - influences[1]) ** 2).sum()))
        return speeds[0] - speeds[1] > error

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


def _joined(texts: Sequence[GreedyText], level: int) -> np.ndarray:
    """The ranks of all texts at a depth, with a miss after the end of each text."""
    return np.concatenate([np.append(text.ranks[min(level, len(text.ranks) - 1)], -1) for text in texts])
