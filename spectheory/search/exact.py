"""Exact dynamic program: the best tree for rates in any order of rank, and for every budget at once.

A node at depth d with n drafted nodes below it, its children taking ranks 0..k-1 and n_r nodes each, is worth

    g_d(n) = max over k and n_0 + ... + n_{k-1} = n, all n_r >= 1, of  sum_r rate[d, r] * (1 + g_{d+1}(n_r - 1))

beyond itself. Folding the ranks from the last one gives one (max, +) convolution for each rank: the worth of the
children of ranks r and later is

    w_r(m) = max over 1 <= j <= m of  v(j) = rate[d, r] * (1 + g_{d+1}(j - 1)) + w_{r+1}(m - j),

or 0 for no further child, and g_d = w_0. The rows from the last one on share one g, which needs only its own smaller
entries: filled by growing m it is consistent with itself.

**Most splits j need no look.** Let A and B be the least concave sequences above g_{d+1} and w_{r+1}, and
f(j) = rate[d, r] * (1 + A(j - 1)) + B(m - j): concave in j, and nowhere below v(j). Walk outwards from any split, both
ways, keeping the best v(x) so far, and stop on a side at the first j with f(j) <= v(x). Then f(x) >= v(x) >= f(j), x
was passed before j, so by concavity f does not rise beyond j, and no split there is worth more than v(x). The walk is
exact from any start; the best split for m - 1 makes it short: 1 to 3 splits on measured tables, some hundred of
100,000 where rates are shuffled. The worst case remains quadratic.

Worths are sums in float64: a gain below about 1e-16 of the sum is not seen.

Source: the recursion is that of Sequoia (arXiv 2402.12374, tree construction), with rates by depth; the walk is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from spectheory.core.memory import require_memory
from spectheory.core.tree import Tree

INLINED = njit(inline="always")
"""For what is done at every entry, where a call with its arrays takes longer than the work."""

AT_ONCE = 4
"""Splits that the walk looks at before it asks again whether to go on; the more, the more looks in vain."""


@INLINED
def extend_hull(worth: np.ndarray, corners: np.ndarray, size: int, new: int) -> int:
    """Take one more entry into the least concave majorant.

    Args:
        worth: (2, N) float64; row 0 the sequence, row 1 its majorant up to `new`, exclusive, changed in place.
        corners: (N,) int32 indices, ascending, between which the majorant is straight; the first `size` are in use.
        size: corners in use before, at least 1.
        new: index to take in.

    Returns:
        Corners in use after.
    """
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


@njit(cache=True)
def look(
    rate: float, child: np.ndarray, rest: np.ndarray, m: int, first: int, step: int, pick: int, best: float
) -> tuple[int, float]:
    """The best split so far, after a look at `AT_ONCE` more: `first` and on in steps of `step`, no farther than 1..m.

    Their worths do not wait for each other, and one test serves them all: on long walks two thirds of the time.
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
    """The split of m nodes into j for one child and m - j for the later ones, by the walk of the module's text.

    Args:
        rate: above 0.
        child: (2, N) float64, worth below the child, and its majorant.
        rest: (2, N) float64, worth of the later children, and its majorant.
        m: nodes to split, at least 1.
        start: split to walk from, 1..m.

    Returns:
        The best j, and its worth less `rate`.
    """
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
    """Entries first..end-1 of the worth of a child and the later ones, those before `first` being there.

    Args:
        rate: of the child.
        child: (2, N) float64, as for `best_split`.
        rest: (2, N) float64, as for `best_split`.
        worth: (2, N) float64, filled: the worth, and its majorant.
        picks: (N,) int32, filled: nodes of the child with all below it, 0 for no further child.
        corners: of `worth`, as for `extend_hull`.
        size: corners in use before.
        first: at least 1.
        end: one past the last entry to fill.

    Returns:
        Corners in use after.
    """
    for m in range(first, end):
        if rate == 0:  # the child is there only to uncover the next one
            worth[0, m] = rest[0, m - 1]
            picks[m] = 1 if worth[0, m] > 0 else 0
        else:
            pick, best = best_split(rate, child, rest, m, max(picks[m - 1], 1))
            worth[0, m], picks[m] = rate + best, pick
        size = extend_hull(worth, corners, size, m)
    return size


@njit(cache=True)
def fill_row(rates: np.ndarray, child: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """Worth below a node by the nodes there, and its majorant.

    Args:
        rates: (R,) float64 of its children.
        child: (2, N) float64, the same one level deeper.
        picks: (R, N) int32, column 0 zero; filled as by `convolve`.

    Returns:
        (2, N) float64.
    """
    rest = np.zeros(child.shape)
    corners = np.zeros(child.shape[1], np.int32)
    for r in range(len(rates) - 1, -1, -1):
        worth = np.zeros(child.shape)
        convolve(rates[r], child, rest, worth, picks[r], corners, 1, 1, child.shape[1])
        rest = worth
    return rest


@njit(cache=True)
def fill_stationary(rates: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """`fill_row` for nodes whose children are as they are: all ranks advance together, entry by entry."""
    ranks, columns = picks.shape
    worth = np.zeros((ranks + 1, 2, columns))
    corners, size = np.zeros((ranks, columns), np.int32), np.ones(ranks, np.int64)
    for m in range(1, columns):
        for r in range(ranks - 1, -1, -1):
            size[r] = convolve(rates[r], worth[0], worth[r + 1], worth[r], picks[r], corners[r], size[r], m, m + 1)
    return worth[0].copy()


@njit(cache=True)
def rebuild(picks: np.ndarray, budget: int, limit: int) -> tuple[np.ndarray, int]:
    """The best tree of at most `budget` nodes, none deeper than `limit`.

    Args:
        picks: (S, R, N) int32, N > budget; nodes deeper than S - 1 use the last state.
        budget: at least 1.
        limit: greatest depth of a node, at least 1.

    Returns:
        parent (n + 1,) int32, breadth first, and the greatest depth.
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


def used_rates(row: np.ndarray) -> np.ndarray:
    """`row` without its trailing zeros: ranks that never pay."""
    return np.trim_zeros(row, "b")


def solve(table: np.ndarray, budgets: Sequence[int], states: int, limit: int) -> list[tuple[np.ndarray, int]]:
    """What `rebuild` gives for each of `budgets`.

    Args:
        table: (D, R) float64 rates, D <= states.
        budgets: whole numbers >= 1.
        states: depths told apart; where `limit` is greater, nodes deeper down are like those at the last one.
        limit: greatest depth of a node, at least `states`.

    Raises:
        InputError: it needs more memory than there is.
    """
    ranks, largest = table.shape[1], max(budgets)
    require_memory(lambda n: (n + 1) * (4 * states * ranks + 20 * ranks + 100), largest)
    picks = np.zeros((states, ranks, largest + 1), np.int32)
    child = np.zeros((2, largest + 1))
    for state in reversed(range(states)):
        rates = used_rates(table[min(state, len(table) - 1)])
        used = picks[state, : len(rates)]
        stationary = state == states - 1 and limit > states
        child = fill_stationary(rates, used) if stationary else fill_row(rates, child, used)
    return [rebuild(picks, budget, limit) for budget in budgets]


def trees(table: np.ndarray, budgets: Sequence[int], limit: int) -> list[Tree]:
    """The best tree for each of `budgets`, no node deeper than `limit`.

    Where `limit` far exceeds the rows of the table, the best trees without a limit are found first, in time and
    memory that do not grow with `limit`: if they keep it, they are the answer.

    Args:
        table: (D, R) float64 rates, D <= limit.
        budgets: whole numbers >= 1.
        limit: greatest depth of a node, from 1 to the largest budget.

    Raises:
        InputError: it needs more memory than there is.
    """
    rows = len(table)
    found = solve(table, budgets, rows, max(budgets)) if limit > 2 * rows else []
    if not found or max(deepest for _, deepest in found) > limit:
        found = solve(table, budgets, limit, limit)
    return [Tree(parent) for parent, _ in found]


def fill_yields(table: np.ndarray, result: np.ndarray) -> None:
    """Fill `result`, (M + 1, N + 1) of ones, with the best block efficiency for each greatest depth and budget.

    `below[d]` is the worth below a node at depth d with `remaining` more depths allowed. Where one more depth changes
    none of them, no further one does.

    Args:
        table: (D, R) float64 rates, D <= M.
        result: changed in place.
    """
    rows, ranks = table.shape
    max_depth, columns = len(result) - 1, result.shape[1]
    below = [np.zeros((2, columns))] * rows
    picks = np.zeros((ranks, columns), np.int32)
    for remaining in range(1, max_depth + 1):
        before = below.copy()
        for depth in range(min(rows, max_depth - remaining + 1)):
            rates = used_rates(table[depth])
            below[depth] = fill_row(rates, before[min(depth + 1, rows - 1)], picks[: len(rates)])
        result[remaining] = 1 + below[0][0]
        if all(np.array_equal(new, old) for new, old in zip(below, before, strict=True)):
            result[remaining:] = result[remaining]
            break
