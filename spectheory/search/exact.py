"""Exact dynamic program: the best tree for rates in any order of rank, for every budget at once.

The worth of a subtree is the expected number of its accepted nodes, given that its root is accepted. For a node at
depth d with n drafted nodes below it, the highest worth of these n nodes is

    g_d(n) = max over k and n_0 + ... + n_{k-1} = n, all n_r >= 1, of  sum_r rate[d, r] * (1 + g_{d+1}(n_r - 1)),

where the k children have ranks 0..k-1 and the child of rank r has n_r nodes, itself included. The ranks are treated
from the last to the first, with one (max, +) convolution for each rank. The children of ranks r and later are worth

    w_r(m) = max over 1 <= j <= m of  v(j) = rate[d, r] * (1 + g_{d+1}(j - 1)) + w_{r+1}(m - j),

or 0 if there is no further child, and g_d = w_0. All depths from the last row of the table on have the same g. This g
refers to its own smaller entries only, so it is filled in the order of growing m.

**Few splits j are evaluated.** Let A and B be the least concave sequences above g_{d+1} and w_{r+1}, and let
f(j) = rate[d, r] * (1 + A(j - 1)) + B(m - j). Then f is concave in j, and f(j) >= v(j). Walk from any split in both
directions, keep the best v(x) so far, and stop on a side at the first j with f(j) <= v(x). Then f(x) >= v(x) >= f(j),
and the walk passed x before j. So f does not rise beyond j, because it is concave, and no split beyond j is worth more
than v(x). The walk is exact from any start. From the best split for m - 1 it is short: 1 to 3 splits on measured
tables, some hundred of 100,000 for shuffled rates. The worst case is still quadratic.

Worths are sums in float64: a gain below about 1e-16 of the sum is lost. In the bodies, `child`, `rest` and `worth` are
(2, N) arrays: row 0 is the worth below the child, of its later siblings, or of both, by number of nodes, and row 1 is
the least concave sequence above it, linear between its `corners` (N,), of which the first `size` are in use. `picks`
(N,) holds the best j for each m, 0 for no further child.

Source: the recursion is from Sequoia (arXiv 2402.12374, tree construction), with rates by depth; the walk is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectheory.core.machine import compiler, require_memory
from spectheory.core.tree import Tree

INLINED = compiler(inline="always")
"""For functions called at every entry: passing their arrays to a call would take longer than their work."""

AT_ONCE = 4
"""Number of splits that the walk evaluates between two checks whether to stop."""


@INLINED
def extend_hull(worth: np.ndarray, corners: np.ndarray, size: int, new: int) -> int:
    """Extend row 1 of `worth`, filled before index `new`, by this entry; return the new number of corners."""
    while size >= 2:
        near, far = corners[size - 1], corners[size - 2]
        if (worth[0, new] - worth[0, near]) * (near - far) <= (worth[0, near] - worth[0, far]) * (new - near):
            break
        size -= 1
    near = corners[size - 1]
    if new - near > 1:
        slope = (worth[0, new] - worth[0, near]) / (new - near)
        for j in range(near + 1, new):
            worth[1, j] = worth[0, near] + slope * (j - near)
    worth[1, new] = worth[0, new]
    corners[size] = new
    return size + 1


@compiler(cache=True)
def look(
    rate: float, child: np.ndarray, rest: np.ndarray, m: int, first: int, step: int, pick: int, best: float
) -> tuple[int, float]:
    """Evaluate `AT_ONCE` splits, from `first` in steps of `step` but within 1..m; return the best split and its worth.

    Before and after the call, `pick` is the best split so far, and `best` is the worth of this split less `rate`. The
    evaluations are independent of each other and share one comparison, which makes long walks faster by a third.
    """
    top = 0.0
    for i in range(AT_ONCE):
        j = min(max(first + i * step, 1), m)
        top = max(top, rate * child[0, j - 1] + rest[0, m - j])
    if top <= best:
        return pick, best
    while rate * child[0, first - 1] + rest[0, m - first] < top:
        first += step
    return first, top


@INLINED
def best_split(rate: float, child: np.ndarray, rest: np.ndarray, m: int, start: int) -> tuple[int, float]:
    """The best split j of m nodes for a rate above 0, and its worth less `rate`, by the walk from the split `start`."""
    pick, best = start, rate * child[0, start - 1] + rest[0, m - start]
    low, high = start - 1, start + 1
    going = True
    while going:
        going = False
        if high <= m and rate * child[1, high - 1] + rest[1, m - high] > best:
            pick, best = look(rate, child, rest, m, high, 1, pick, best)
            high += AT_ONCE
            going = True
        if low >= 1 and rate * child[1, low - 1] + rest[1, m - low] > best:
            pick, best = look(rate, child, rest, m, low, -1, pick, best)
            low -= AT_ONCE
            going = True
    return pick, best


@INLINED
def convolve(
    rate: float,
    child: np.ndarray,
    rest: np.ndarray,
    worth: np.ndarray,
    picks: np.ndarray,
    corners: np.ndarray,
    size: int,
    first: int,
    end: int,
) -> int:
    """Fill the entries first..end-1 of `worth` and `picks`, given the earlier; return the new number of corners."""
    for m in range(first, end):
        if rate == 0:  # the child is drafted only because a later sibling needs it
            worth[0, m] = rest[0, m - 1]
            picks[m] = 1 if worth[0, m] > 0 else 0
        else:
            pick, best = best_split(rate, child, rest, m, max(picks[m - 1], 1))
            worth[0, m], picks[m] = rate + best, pick
        size = extend_hull(worth, corners, size, m)
    return size


@compiler(cache=True)
def fill_row(rates: np.ndarray, child: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """The worth (2, N) below a node whose children have these `rates` (R,) and the worth `child`.

    `picks` (R, N), whose column 0 is zero, is filled.
    """
    rest = np.zeros(child.shape)
    corners = np.zeros(child.shape[1], np.int32)
    for r in range(len(rates) - 1, -1, -1):
        worth = np.zeros(child.shape)
        convolve(rates[r], child, rest, worth, picks[r], corners, 1, 1, child.shape[1])
        rest = worth
    return rest


@compiler(cache=True)
def fill_stationary(rates: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """`fill_row` for nodes whose children have the same rates as the nodes: all ranks are filled entry by entry."""
    ranks, columns = picks.shape
    worth = np.zeros((ranks + 1, 2, columns))
    corners, size = np.zeros((ranks, columns), np.int32), np.ones(ranks, np.int64)
    for m in range(1, columns):
        for r in range(ranks - 1, -1, -1):
            size[r] = convolve(rates[r], worth[0], worth[r + 1], worth[r], picks[r], corners[r], size[r], m, m + 1)
    return worth[0].copy()


@compiler(cache=True)
def rebuild(picks: np.ndarray, budget: int, limit: int) -> tuple[np.ndarray, int]:
    """The parents of the best tree of at most `budget` nodes, none deeper than `limit`, and its depth.

    `picks` (S, R, N) is filled for each depth; nodes deeper than S - 1 use the last of the S entries.
    """
    parent = np.full(budget + 1, -1, np.int32)
    depth, below = np.zeros(budget + 1, np.int64), np.zeros(budget + 1, np.int64)
    below[0] = budget
    node, size = 0, 1
    while node < size:
        state, left = min(depth[node], picks.shape[0] - 1), below[node]
        for r in range(picks.shape[1] if depth[node] < limit else 0):
            taken = picks[state, r, left]
            if taken == 0:
                break
            parent[size], depth[size], below[size] = node, depth[node] + 1, taken - 1
            left -= taken
            size += 1
        node += 1
    return parent[:size].copy(), depth[size - 1]


def solve(table: np.ndarray, budgets: Sequence[int], states: int, limit: int) -> list[tuple[np.ndarray, int]]:
    """The result of `rebuild` for each of `budgets`; `table` and errors as for `trees`.

    `states` depths, at least D, are computed separately. If `limit` is greater, the last one holds for deeper nodes.
    """
    ranks, largest = table.shape[1], max(budgets)
    require_memory(lambda n: (n + 1) * (4 * states * ranks + 20 * ranks + 100), largest)
    picks = np.zeros((states, ranks, largest + 1), np.int32)
    child = np.zeros((2, largest + 1))
    for state in reversed(range(states)):
        rates = np.trim_zeros(table[min(state, len(table) - 1)], "b")  # a rank of rate 0 at the end is never drafted
        used = picks[state, : len(rates)]
        stationary = state == states - 1 and limit > states
        child = fill_stationary(rates, used) if stationary else fill_row(rates, child, used)
    return [rebuild(picks, budget, limit) for budget in budgets]


def trees(table: np.ndarray, budgets: Sequence[int], limit: int) -> list[Tree]:
    """`best_first.trees` for rates in any order.

    If `limit` is more than twice the number of rows, the best trees without a depth limit are found first, in time and
    memory that do not grow with `limit`. If none of them is deeper than `limit`, they are the answer. `limit`
    is at least D and at most the largest budget.
    """
    rows = len(table)
    found = solve(table, budgets, rows, max(budgets)) if limit > 2 * rows else []
    if not found or max(deepest for _, deepest in found) > limit:
        found = solve(table, budgets, limit, limit)
    return [Tree(parent) for parent, _ in found]


def fill_yields(table: np.ndarray, result: np.ndarray) -> None:
    """`best_first.fill_yields` for rates (D, R) in any order, D <= M.

    In the body, `below[d]` is the worth below a node at depth d if `remaining` more levels are allowed. If one more
    level changes none of the entries, no further level does.
    """
    rows, ranks = table.shape
    max_depth, columns = len(result) - 1, result.shape[1]
    below = [np.zeros((2, columns))] * rows
    picks = np.zeros((ranks, columns), np.int32)
    for remaining in range(1, max_depth + 1):
        before = below.copy()
        for depth in range(min(rows, max_depth - remaining + 1)):
            rates = np.trim_zeros(table[depth], "b")
            below[depth] = fill_row(rates, before[min(depth + 1, rows - 1)], picks[: len(rates)])
        result[remaining] = 1 + below[0][0]
        if all(np.array_equal(new, old) for new, old in zip(below, before, strict=True)):
            result[remaining:] = result[remaining]
            break
