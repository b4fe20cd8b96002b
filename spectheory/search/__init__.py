"""The best draft tree under an acceptance model, and what each budget and depth can give at most.

Every answer is exact: best-first search where the rates are non-increasing in rank, the dynamic program where not.
The kernels, and with them Numba, are imported by the first search that needs them. Beside it stand the policies that
grow a tree from a draft's own probabilities, as data for one search (`frontier`).
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_budget, check_whole
from spectheory.core.errors import InputError
from spectheory.core.memory import require_memory
from spectheory.core.tree import Tree
from spectheory.search import best_first
from spectheory.search.draft_models import DraftModel, MarkovDraft, RatesDraft
from spectheory.search.drafted_tree import Drafted
from spectheory.search.eagle2 import Eagle2
from spectheory.search.opt_tree import OptTree, OptTreeAtCost
from spectheory.search.salf import Salf
from spectheory.search.spec_exec import SpecExec, distance_to_optimum

__all__ = [
    "DraftModel",
    "Drafted",
    "Eagle2",
    "MarkovDraft",
    "OptTree",
    "OptTreeAtCost",
    "RatesDraft",
    "Salf",
    "SpecExec",
    "best_tree",
    "best_trees",
    "distance_to_optimum",
    "yield_table",
]


def best_tree(
    acceptance: Acceptance, budget: int, *, max_depth: int | None = None, max_fanout: int | None = None
) -> Tree:
    """The tree of at most `budget` drafted nodes with the highest `yields.block_efficiency`.

    It has fewer nodes where no further one would ever be accepted.

    Args:
        acceptance: rates by depth and rank, in any order of rank.
        budget: most drafted nodes, at least 1.
        max_depth: greatest depth of a node, None for any.
        max_fanout: most children of a node, None for any.

    Raises:
        InputError: an argument is out of range, or the search needs more memory than there is.

    >>> best_tree(Acceptance.by_rank([0.1, 0.8]), 3)
    Tree([-1, 0, 0, 2])
    """
    _check_tree_depth(max_depth)
    table, limit = _problem(acceptance, budget, max_depth, max_fanout)
    return _search(table, budget).trees(table, [budget], limit)[0]


def best_trees(
    acceptance: Acceptance, budget: int, *, max_depth: int | None = None, max_fanout: int | None = None
) -> list[Tree]:
    """`best_tree` for every budget from 0 to `budget`, from one search; entry 0 is `Tree.chain(0)`.

    Arguments and errors are those of `best_tree`. The trees together take up to 5 * budget^2 bytes.
    """
    _check_tree_depth(max_depth)
    table, limit = _problem(acceptance, budget, max_depth, max_fanout)
    require_memory(lambda n: 5 * (n + 1) * (n + 500), budget)
    return [Tree.chain(0), *_search(table, budget).trees(table, range(1, budget + 1), limit)]


def yield_table(acceptance: Acceptance, budget: int, *, max_depth: int, max_fanout: int | None = None) -> np.ndarray:
    """The best block efficiency for every depth and budget.

    Args:
        acceptance: rates by depth and rank, in any order of rank.
        budget: most drafted nodes, at least 1.
        max_depth: greatest depth, at least 0.
        max_fanout: most children of a node, None for any.

    Returns:
        (max_depth + 1, budget + 1) float64; entry [d, n] is for at most n drafted nodes, none deeper than d.

    Raises:
        InputError: an argument is out of range, or the table needs more memory than there is.
    """
    check_whole("max_depth", max_depth, 0, "")
    table, limit = _problem(acceptance, budget, max_depth, max_fanout)
    rows, ranks = table.shape
    require_memory(lambda n: 8 * (n + 1) * (max_depth + 4 * rows + ranks + 16), budget)
    result = np.ones((max_depth + 1, budget + 1))
    _search(table, budget).fill_yields(table, result[: limit + 1])
    result[limit + 1 :] = result[limit]  # a node deeper than the budget cannot be
    return result


def _check_tree_depth(max_depth: object) -> None:
    if max_depth is not None:
        check_whole("max_depth", max_depth, 1, ": for no speculation use Tree.chain(0), for any depth None")


def _problem(
    acceptance: Acceptance, budget: int, max_depth: int | None, max_fanout: int | None
) -> tuple[np.ndarray, int]:
    """The rates that a tree within the limits can use, (D, R), and the greatest depth of a node in it, at least D."""
    if not isinstance(acceptance, Acceptance):
        raise InputError(f"acceptance must be an Acceptance, got {type(acceptance).__name__}: use Acceptance.by_rank")
    check_budget(budget)
    if max_fanout is not None:
        check_whole("max_fanout", max_fanout, 1, ": None sets no limit")
    limit = budget if max_depth is None else min(budget, max_depth)
    return np.array(acceptance.table[:limit, : max_fanout or budget]), limit


def _search(table: np.ndarray, budget: int) -> ModuleType:
    """`best_first` where it is exact, `exact` where not.

    A rate above 1 by rounding, which Acceptance lets pass, makes a node worth more than its parent; a rank r at depth
    d needs d + r + 1 nodes, so that with fewer it does not matter.
    """
    rows = [row[: budget - depth] for depth, row in enumerate(table)]
    if all(row[0] <= 1 and (np.diff(row) <= 0).all() for row in rows):
        return best_first
    from spectheory.search import exact

    return exact
