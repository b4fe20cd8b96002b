"""`Candidates`, the trees that a plan chooses from. One search is enough for all latencies and batch sizes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_budget, check_whole
from spectheory.core.errors import InputError
from spectheory.core.machine import require_memory
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.search import best_trees
from spectheory.search.beam import beam, draft_scores
from spectheory.yields import RequestClasses, block_efficiency, block_efficiency_interval, reach

Progress = Callable[[int, int], None]
"""A callback to which a search reports its progress: the number of finished steps and the number of all steps."""


def ignore_progress(finished: int, total: int) -> None:
    """A `Progress` callback that does nothing."""


MAX_BUDGET = 64
"""Maximum number of drafted nodes of a tree, if a search is given no other."""


@dataclass(frozen=True)
class ByRates:
    """What rates predict for a tree without a trace: by request classes if they fit, otherwise by the table of rates.

    Attributes:
        acceptance: the acceptance rates.
        classes: the classes of contexts that were fitted to their counts; None multiplies the rates of the table.
        unfit: why no classes fit, although the rates have counts of the cycles of one tree; empty otherwise.
    """

    acceptance: Acceptance
    classes: RequestClasses | None = None
    unfit: str = ""

    @classmethod
    def of(cls, acceptance: Acceptance) -> ByRates:
        """With classes of contexts, if the rates have counts of the cycles of one tree and classes fit them."""
        fitted = _fitted(acceptance)
        return cls(acceptance, unfit=fitted) if isinstance(fitted, str) else cls(acceptance, fitted)

    def tau(self, tree: Tree) -> float:
        """Predicted tokens per target call."""
        return block_efficiency(tree, self.acceptance) if self.classes is None else self.classes.block_efficiency(tree)

    def taus(self, tree: Tree, budgets: np.ndarray) -> np.ndarray:
        """Predicted tokens per target call of the first nodes of `tree`, for each number of drafted nodes."""
        if self.classes is None:
            return reach(tree, self.acceptance).cumsum()[budgets]
        by_class = self.classes.reach_by_class(tree).cumsum(-1)[:, budgets]
        return 1 / (self.classes.shares @ (1 / by_class))

    def interval(self, tree: Tree) -> tuple[float, float] | None:
        """95% interval of `tau`; None for rates without counts."""
        if self.classes is not None:
            return self.classes.block_efficiency_interval(tree)
        return None if self.acceptance.trials is None else block_efficiency_interval(tree, self.acceptance)

    def reach(self, tree: Tree) -> Float[np.ndarray, " nodes"]:
        """Predicted probability that each node is accepted."""
        return reach(tree, self.acceptance) if self.classes is None else self.classes.reach(tree)


@lru_cache(maxsize=32)
def _fitted(acceptance: Acceptance) -> RequestClasses | str | None:
    """Classes for these rates, or why none fit; None for rates without counts of the cycles of one tree."""
    if acceptance.cycles_of is None or acceptance.trials is None:
        return None
    try:
        return RequestClasses.from_acceptance(acceptance)
    except InputError as error:  # NoClassesError is one
        return str(error)


@dataclass(frozen=True)
class Limits:
    """Limits of a search.

    Attributes:
        max_budget: maximum number of drafted nodes, at least 1.
        max_depth: depth of the deepest node, at least 1; None sets no limit.
        max_fanout: maximum number of children of a node, at least 1; None sets no limit.
    """

    max_budget: int = MAX_BUDGET
    max_depth: int | None = None
    max_fanout: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.max_budget, "max_budget")
        for name in ("max_depth", "max_fanout"):
            if (value := getattr(self, name)) is not None:
                check_whole(name, value, 1, ": None sets no limit")

    def allows(self, tree: Tree) -> bool:
        """Whether a tree is within the limits."""
        sizes = tree.budget, tree.max_depth, int(tree.rank.max()) + 1 if tree.budget else 0
        limits = self.max_budget, self.max_depth, self.max_fanout
        return all(limit is None or size <= limit for size, limit in zip(sizes, limits, strict=True))

    @property
    def longest_chain(self) -> int:
        """Number of drafted tokens in the longest chain within the limits."""
        return min(self.max_budget, self.max_depth or self.max_budget)


class Candidates:
    """The trees of highest block efficiency for each budget, depth limit and width limit. Plans choose the fastest.

    The width of a tree is the largest number of nodes with children at one depth. That is the number of tokens of its
    widest draft forward.

    If a draft forward costs the same at every width, the fastest of all trees is a candidate. It is one too if one
    forward drafts all levels, and more levels never take less time: the seconds of a cycle then depend on budget, depth
    and whether the tree is a chain. If wide forwards cost more, a tree with other widths at other depths can be faster.
    This was measured over all 6,918 trees of up to 9 nodes, with 150 random tables of rates and costs up to quadratic
    in the width: the fastest candidate was slower than the fastest tree by 0.6% at worst and 0.004% on average. Depth
    limits alone would have lost 6.5% and 0.24%.

    If the rates are not non-increasing in rank, the trees with a width limit come from the beams of `search.beam`, one
    for each fan-out. They need not have the highest block efficiency.

    The candidates depend only on the acceptance, so one search serves every latency, batch size and context.

    Request classes change what is predicted for the candidates, and so which one is the fastest, but not the search.

    Attributes:
        acceptance: the rates.
        limits: limits of the search.
        block_efficiency: (M,) block efficiency of each candidate. Candidate 0 is the root alone.
        free: (max_budget + 1,) for each budget, the index of the candidate of highest block efficiency at any depth.
        chains: (max_budget + 1,) for each budget, the index of its chain, cut to the depth limit.
    """

    def __init__(
        self,
        acceptance: Acceptance,
        limits: Limits,
        progress: Progress = ignore_progress,
        classes: RequestClasses | None = None,
    ) -> None:
        self.acceptance, self.limits = acceptance, limits
        max_budget, max_depth, max_fanout = limits.max_budget, limits.max_depth, limits.max_fanout
        free = best_trees(acceptance, max_budget, max_depth=max_depth, max_fanout=max_fanout)
        chains = best_trees(acceptance, max_budget, max_depth=max_depth, max_fanout=1)
        depths, chains_only = range(1, free[-1].max_depth), min(acceptance.ranks, max_fanout or max_budget) == 1
        if not chains_only:
            require_memory(lambda n: TREE_BYTES * (len(depths) + 1) * n * n, max_budget)
        pool = _Pool(acceptance)
        self.free, self.chains = pool.numbers(free), pool.numbers(chains)
        for limit in () if chains_only else depths:  # `free` already contains the chain of every depth limit
            progress(limit - 1, len(depths) + len(WIDTHS))
            pool.numbers(best_trees(acceptance, max_budget, max_depth=limit, max_fanout=max_fanout))
        narrower = _narrow(acceptance, max_budget, max_depth or max_budget, max_fanout or max_budget)
        for tried, narrow in enumerate(() if chains_only else narrower):
            progress(len(depths) + min(tried, len(WIDTHS)), len(depths) + len(WIDTHS))
            for prefixes in narrow:
                pool.add(*prefixes)
        self._pool = pool
        self.block_efficiency, self._budget, self._depth = pool.joined()
        if classes is not None:
            self.block_efficiency = pool.taus(ByRates(acceptance, classes))

    def tree(self, number: int) -> Tree:
        """The tree of the candidate with the index `number`."""
        return self._pool.tree(number)

    def speedups(self, latency: Latency, context: int) -> Float[np.ndarray, " candidates"]:
        """Predicted speedup of each candidate over plain decoding."""
        draft, target = latency.curves(len(self.free), context)
        by_tokens = np.append(0, draft)
        seconds = by_tokens[self._depth] if latency.drafts_at_once else self._pool.draft_seconds(by_tokens)
        seconds += latency.overheads(self._depth, np.where(self._budget > self._depth, self._budget, 0))
        seconds[0] = latency.plain_overhead_seconds
        seconds += target[self._budget]
        seconds += latency.prompts(self.block_efficiency, self._budget > 0)
        return self.block_efficiency * latency.plain(context) / seconds

    def of_budget(self, budget: int) -> np.ndarray:
        """The numbers of the candidates with this many drafted nodes."""
        return np.flatnonzero(self._budget == budget)

    def fastest(self, speedups: Float[np.ndarray, " candidates"], among: Int[np.ndarray, " some"] | None = None) -> int:
        """The index of the fastest candidate, or of the fastest in `among`. Ties go to the smallest tree."""
        numbers = np.arange(len(self._budget)) if among is None else among
        return int(numbers[np.lexsort((self._budget[numbers], -speedups[numbers]))[0]])


TREE_BYTES = 30
"""Bytes that the candidates need at most, per squared budget and depth limit: 7 to 29 were measured."""
WIDTHS = (*range(1, 17), *(2**doubling for doubling in range(5, 26)))
"""The width limits that are tried. With more of them, searches with large budgets would be slow."""


class _Pool:
    """The candidates found so far, as arrays. All prefixes of one beam share its parent array."""

    def __init__(self, acceptance: Acceptance) -> None:
        self._acceptance = acceptance
        self._known: dict[bytes, int] = {}
        self._parents: list[np.ndarray] = []
        self._first: list[int] = []
        self._tau: list[np.ndarray] = []
        self._budget: list[np.ndarray] = []
        self._widths: list[np.ndarray] = []
        self._count = 0

    def numbers(self, trees: Iterable[Tree]) -> np.ndarray:
        """The index of each tree. New trees are added."""
        found = []
        for tree in trees:
            name = tree.parent.tobytes()
            if name not in self._known:
                self._known[name] = self._count
                tau = np.array([block_efficiency(tree, self._acceptance)])
                self.add(tree.parent, np.array([tree.budget]), tau, Tree(tree.parent).level_widths()[None])
            found.append(self._known[name])
        return np.array(found)

    def add(
        self,
        parent: Int[np.ndarray, " nodes"],
        budgets: Int[np.ndarray, " n"],
        tau: Float[np.ndarray, " n"],
        widths: Int[np.ndarray, "n levels"],
    ) -> None:
        """Add the prefixes of `parent` with `budgets` drafted nodes, their tau and their level widths."""
        smallest = np.int16 if len(parent) < 2**15 else np.int32
        arrays = parent.astype(np.int32), tau, budgets.astype(np.int32), widths.astype(smallest)
        for column, array in zip((self._parents, self._tau, self._budget, self._widths), arrays, strict=True):
            column.append(array)
        self._first.append(self._count)
        self._count += len(budgets)

    def joined(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Block efficiency, budget and depth of every candidate."""
        self._known.clear()
        depths = [np.full(len(widths), widths.shape[1], np.int32) for widths in self._widths]
        return np.concatenate(self._tau), np.concatenate(self._budget), np.concatenate(depths)

    def taus(self, rates: ByRates) -> np.ndarray:
        """What these rates predict for every candidate."""
        trees = zip(self._parents, self._budget, strict=True)
        return np.concatenate([rates.taus(Tree(parent), budgets) for parent, budgets in trees])

    def draft_seconds(self, draft: np.ndarray) -> np.ndarray:
        """Seconds of the draft forwards of every candidate. `draft[w]` is the time of a forward of w tokens."""
        return np.concatenate([draft[widths].sum(1) for widths in self._widths])

    def tree(self, number: int) -> Tree:
        """The tree of the candidate with the index `number`."""
        beam = bisect_right(self._first, number) - 1
        return Tree(self._parents[beam][: self._budget[beam][number - self._first[beam]] + 1])


def _narrow(
    acceptance: Acceptance, max_budget: int, max_levels: int, max_fanout: int
) -> Iterator[list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]]:
    """The arguments of `_Pool.add` for the trees with a width limit, one list for each fan-out and width limit.

    A prefix that also satisfies a smaller limit is left out, because it was found there.
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
                if new.any():
                    budgets = np.flatnonzero(new)
                    found.append((grown.parent, budgets, tau[budgets], parents[budgets, :levels]))
            yield found
            if not reached:
                break
