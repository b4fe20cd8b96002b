"""The best draft tree for given acceptance rates, its block efficiency by budget and depth, and drafting policies.

`best_tree`, `best_trees` and `yield_table` are exact for any rates. They use best-first search where the rates are
non-increasing in rank, and a dynamic program where they are not. The first search that needs Numba imports it.

The policies (EAGLE-2, OPT-Tree, SALF, SpecExec) grow a tree from the draft model's own probabilities. All of them use
the same search, `frontier`.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
from jaxtyping import Float64

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_budget, check_whole, checked
from spectheory.core.machine import require_memory
from spectheory.core.tree import Tree
from spectheory.search import best_first
from spectheory.search.draft_models import Drafted, DraftModel, MarkovDraft, RatesDraft
from spectheory.search.eagle2 import Eagle2
from spectheory.search.opt_tree import OptTree
from spectheory.search.policy_comparison import Policy, PolicyComparison, compare_policies, standard_policies
from spectheory.search.salf import Salf
from spectheory.search.spec_exec import SpecExec
from spectheory.search.static_trees import StaticTree, best_static_tree

__all__ = [
    "DraftModel",
    "Drafted",
    "Eagle2",
    "MarkovDraft",
    "OptTree",
    "Policy",
    "PolicyComparison",
    "RatesDraft",
    "Salf",
    "SpecExec",
    "StaticTree",
    "best_static_tree",
    "best_tree",
    "best_trees",
    "compare_policies",
    "standard_policies",
    "yield_table",
]


@checked
def best_tree(
    acceptance: Acceptance, budget: int, *, max_depth: int | None = None, max_fanout: int | None = None
) -> Tree:
    """The tree of at most `budget` drafted nodes with the highest `yields.block_efficiency`.

    The tree has fewer nodes than the budget if every further node would be accepted with probability 0.

    Args:
        acceptance: rates by depth and rank. The rates may rise with rank.
        budget: maximum number of drafted nodes, at least 1.
        max_depth: the greatest depth of a node; None sets no limit.
        max_fanout: maximum number of children of a node; None sets no limit.

    Raises:
        InputError: an argument is out of range, or the search needs more memory than is available.

    >>> best_tree(Acceptance.by_rank([0.1, 0.8]), 3)
    Tree([-1, 0, 0, 2])
    """
    _check_tree_depth(max_depth)
    table, limit = _problem(acceptance, budget, max_depth, max_fanout)
    return _search(table, budget).trees(table, [budget], limit)[0]


@checked
def best_trees(
    acceptance: Acceptance, budget: int, *, max_depth: int | None = None, max_fanout: int | None = None
) -> list[Tree]:
    """The best tree for every budget from 0 to `budget`, from one search; entry 0 is `Tree.chain(0)`.

    The arguments and the errors are the same as for `best_tree`. All trees together take up to 5 * budget^2 bytes.
    """
    _check_tree_depth(max_depth)
    table, limit = _problem(acceptance, budget, max_depth, max_fanout)
    require_memory(lambda n: 5 * (n + 1) * (n + 500), budget)
    return [Tree.chain(0), *_search(table, budget).trees(table, range(1, budget + 1), limit)]


@checked
def yield_table(
    acceptance: Acceptance, budget: int, *, max_depth: int, max_fanout: int | None = None
) -> Float64[np.ndarray, "depths budgets"]:
    """The best block efficiency for every depth and budget.

    Entry [d, n] is the highest block efficiency, in tokens per target call, of a tree of at most n drafted nodes, none
    deeper than d, for d = 0..max_depth and n = 0..budget. The arguments and the errors are the same as for `best_tree`,
    but `max_depth` is given, and may be 0.
    """
    check_whole("max_depth", max_depth, 0)
    table, limit = _problem(acceptance, budget, max_depth, max_fanout)
    rows, ranks = table.shape
    require_memory(lambda n: 8 * (n + 1) * (int(max_depth) + 4 * rows + ranks + 16), budget)
    result = np.ones((max_depth + 1, budget + 1))
    _search(table, budget).fill_yields(table, result[: limit + 1])
    result[limit + 1 :] = result[limit]  # no tree is deeper than its number of drafted nodes
    return result


def _check_tree_depth(max_depth: object) -> None:
    if max_depth is not None:
        check_whole("max_depth", max_depth, 1, ": for no speculation use Tree.chain(0), for no limit None")


def _problem(
    acceptance: Acceptance, budget: int, max_depth: int | None, max_fanout: int | None
) -> tuple[np.ndarray, int]:
    """The rates (D, R) that a tree within the limits can use, and the greatest depth of its nodes, at least D."""
    check_budget(budget)
    if max_fanout is not None:
        check_whole("max_fanout", max_fanout, 1, ": None sets no limit")
    limit = budget if max_depth is None else min(budget, max_depth)
    return np.array(acceptance.table[:limit, : max_fanout or budget]), limit


def _search(table: np.ndarray, budget: int) -> ModuleType:
    """`best_first` if it is exact for these rates, else `exact`.

    `Acceptance` allows a rate that is above 1 by rounding. Such a rate makes a node worth more than its parent, so
    best-first search is not exact for it. Rates that no tree of the budget can reach do not count: a child of rank r
    of a node at depth d needs d + r + 1 drafted nodes.
    """
    rows = [row[: budget - depth] for depth, row in enumerate(table)]
    if all(row[0] <= 1 and (np.diff(row) <= 0).all() for row in rows):
        return best_first
    from spectheory.search import exact

    return exact
