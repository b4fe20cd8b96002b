"""The trees worth timing, found once for every latency, batch size and context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_budget, check_whole
from spectheory.core.memory import require_memory
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.search import best_trees
from spectheory.search.beam import beam, draft_scores
from spectheory.yields import block_efficiency

Progress = Callable[[int, int], None]
"""Told how many parts of a search are done, and of how many."""


def unwatched(finished: int, total: int) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class Limits:
    """Limits of a search.

    Attributes:
        max_budget: most drafted nodes, at least 1.
        max_depth: depth of the deepest node, at least 1; None sets no limit.
        max_fanout: most children of a node, at least 1; None sets no limit.
    """

    max_budget: int = 64
    max_depth: int | None = None
    max_fanout: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.max_budget, "max_budget")
        for name in ("max_depth", "max_fanout"):
            if (value := getattr(self, name)) is not None:
                check_whole(name, value, 1, ": None sets no limit")

    @property
    def longest_chain(self) -> int:
        """Tokens of the longest chain within the limits."""
        return min(self.max_budget, self.max_depth or self.max_budget)


TREES_BYTES = 80
"""For each budget squared and each limit of depth, what `Candidates` takes at its peak: 30 to 76 were measured, for
trees of depth 10 to 97, 3 to 16 ranks and budgets 300 and 600. Rates that rise in rank somewhere take more, which is
not known here: 636 at budget 300 and 439 at 1000, of a trace as it was counted."""


class Candidates:
    """The trees worth timing: of highest block efficiency for each budget and each limit of depth and of width.

    The width of a tree is the most nodes with children at one depth, the tokens of its widest draft forward. Where a
    draft forward costs the same at every width, the fastest tree of all is among them. Where wide ones cost more, a
    tree of other widths at other depths can be faster: over all 6,918 trees of up to 9 nodes, 150 drawn tables of rates
    and costs up to quadratic in the width, by 0.6% at worst and 0.004% on average, where limits of depth alone lost
    6.5% and 0.24%. Where rates are not non-increasing in rank, the trees of less than full width are those of the beams
    of `search.beam` of every fan-out, not the best of all.

    They depend on the acceptance alone, so that one search serves every latency, batch size and context.

    Attributes:
        block_efficiency: (M,) of each; the first is the root alone.
        free: (max_budget + 1,) for each budget the candidate of highest block efficiency, whatever its depth.
        chains: (max_budget + 1,) for each budget its chain; the deepest allowed where that is shorter.
    """

    def __init__(self, acceptance: Acceptance, limits: Limits, progress: Progress = unwatched) -> None:
        max_budget, max_depth, max_fanout = limits.max_budget, limits.max_depth, limits.max_fanout
        free = best_trees(acceptance, max_budget, max_depth=max_depth, max_fanout=max_fanout)
        chains = best_trees(acceptance, max_budget, max_depth=max_depth, max_fanout=1)
        depths, chains_only = range(1, free[-1].max_depth), min(acceptance.ranks, max_fanout or max_budget) == 1
        if not chains_only:
            require_memory(lambda n: TREES_BYTES * (len(depths) + 1) * n * n, max_budget)
        limited = []
        for limit in () if chains_only else depths:
            progress(limit - 1, len(depths) + len(WIDTHS))
            limited.append(best_trees(acceptance, max_budget, max_depth=limit, max_fanout=max_fanout))
        number: dict[Tree, int] = {}
        self.free, self.chains, *rows = (
            np.array([number.setdefault(tree, len(number)) for tree in row]) for row in (free, chains, *limited)
        )
        if chains_only:  # those of a depth limit are among the free ones
            rows = [self.free[np.minimum(np.arange(max_budget + 1), limit)] for limit in depths]
        self._by_budget = np.array([self.free, *rows])
        found = [(t.parent, block_efficiency(t, acceptance), t.max_depth, t.level_widths()) for t in number]
        narrower = _narrow(acceptance, max_budget, max_depth or max_budget, max_fanout or max_budget)
        for tried, narrow in enumerate(() if chains_only else narrower):
            progress(len(depths) + min(tried, len(WIDTHS)), len(depths) + len(WIDTHS))
            found += narrow
        self._parents, tau, depth, widths = zip(*found, strict=True)
        self.block_efficiency, self._depth = np.array(tau), np.array(depth)
        self._budget = np.array([len(parent) - 1 for parent in self._parents])
        self._starts = np.cumsum([0, *(1 + len(levels) for levels in widths[:-1])])
        self._widths = np.concatenate([part for levels in widths for part in ([0], levels)])

    def tree(self, number: int) -> Tree:
        """The candidate of that number."""
        return Tree(self._parents[number])

    def speedups(self, latency: Latency, context: int) -> np.ndarray:
        """(M,) plain seconds per token over each candidate's."""
        draft, target = latency.curves(len(self.free), context)
        overhead = latency.overhead_seconds + self._depth * latency.level_overhead_seconds
        overhead[0] = latency.plain_overhead_seconds
        drafting = np.add.reduceat(np.append(0, draft)[self._widths], self._starts)
        cycle = drafting + target[self._budget] + overhead
        return self.block_efficiency * latency.plain(context) / cycle

    def fastest(self, speedups: np.ndarray, among: np.ndarray | None = None) -> int:
        """The candidate of highest speedup, of equal ones the smallest; of those numbered `among`, where given."""
        numbers = np.arange(len(self._budget)) if among is None else among
        return int(numbers[np.lexsort((self._budget[numbers], -speedups[numbers]))[0]])

    def fastest_by_budget(self, speedups: np.ndarray) -> np.ndarray:
        """(max_budget + 1,) the highest speedup over the limits of depth and of width, for each budget."""
        fastest = speedups[self._by_budget].max(0)
        np.maximum.at(fastest, self._budget, speedups)
        return fastest


WIDTHS = (*range(1, 17), *(2**doubling for doubling in range(5, 26)))
"""Limits of width; more of them would make large budgets slow."""


def _narrow(
    acceptance: Acceptance, max_budget: int, max_levels: int, max_fanout: int
) -> Iterator[list[tuple[np.ndarray, float, int, np.ndarray]]]:
    """(parent, block efficiency, depth, level widths) of each tree of a beam, at the least limits that give it.

    A list for each fan-out and width.
    """
    most, scores = min(acceptance.ranks, max_fanout, max_budget), draft_scores(acceptance)
    for fanout in [most] if acceptance.is_non_increasing else range(1, most + 1):
        rates = acceptance.table[:, :fanout], scores[:, :fanout]
        for before, width in pairwise((0, *WIDTHS)):
            reached, found = False, []
            for levels, grown in enumerate(beam(*rates, width, max_levels, max_budget), 1):
                parents, tau = grown.parents(), grown.yields()
                new = (parents.max(1) > before) & (np.maximum.accumulate(grown.depth) == levels)
                reached |= bool(new.any())
                if not acceptance.is_non_increasing:
                    new &= np.maximum.accumulate(grown.rank) == fanout - 1
                found += [(grown.parent[: n + 1], tau[n], levels, parents[n]) for n in np.flatnonzero(new)]
            yield found
            if not reached:
                break
