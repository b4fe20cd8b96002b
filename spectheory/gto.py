"""GTO's draft-tree reward, beside what a tree is worth when its tokens are followed by samples of the target."""

from __future__ import annotations

from math import log
from numbers import Real
from typing import Any

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree

ROUNDING = 1e-9
"""How far above 1 the probabilities of siblings may sum through rounding; float32 distributions need rounding up to
1e-5.
"""


def draft_tree_reward(tree: Tree, target_probability: Any, eta: float) -> float:
    """The reward (1 / eta) log(sum_i exp(eta L_i)); L_i sums the path products of the nodes on the way to leaf i.

    Args:
        tree: the draft tree; its sequences are the paths from the root to the leaves, N of them.
        target_probability: (n + 1,) T(token | path) at each node; the root's entry is not read.
        eta: above 0.

    Raises:
        InputError: an argument is out of range.

    What it is not. L_i is the expected number of accepted tokens of sequence i drafted alone, where the token that is
    emitted at each node is a sample of the target (or its argmax, for probabilities 0 and 1) and the draft is followed
    as long as it agrees. The reward r is not the tree's expected number of accepted tokens, `expected_accepted`. It
    counts what sequences share once for each of them. It pays log(N) / eta for their number, whatever is in them: a
    leaf of probability 0.6 has r = 0.6, with a leaf of probability 0 beside it r = 1.04 for eta = 1. And it may rise
    while the expectation falls, so that Theorem 1(a) fails: of a target (4, 3, 3, 1) / 11 and for eta = 6, the leaves
    of 3 and 3 have r = 0.388 and 6/11 expected tokens, those of 4 and 1 have r = 0.393 and 5/11. Nor does it follow
    what other verifiers accept, which depends on the draft's distribution too.

    max L <= r <= max L + log(N) / eta. As eta grows r tends to max L. As eta tends to 0 it grows without bound for
    N > 1; only r - log(N) / eta tends to the average of L, which is what the text below Eq. 5 says of r. The sum, not
    the mean, of the exponentials is the form that has the bounds of the source's appendix. The root alone has reward
    0. exp is taken of eta (L_i - max L), which cannot overflow.

    Source: Group Tree Optimization, Eq. (2)-(5), whose symbols were lost: rebuilt from the text and Appendix A.

    >>> round(draft_tree_reward(Tree([-1, 0, 0]), [1, 0.6, 0], 1), 4)
    1.0375
    """
    reached = _reached(tree, target_probability)
    if isinstance(eta, bool) or not isinstance(eta, Real) or not 0 < eta < np.inf:  # pyright: ignore[reportOperatorIssue]
        raise InputError(f"eta must be finite and above 0, got {eta!r:.80}")
    length = _along_paths(tree, np.concatenate([[0.0], reached[1:]]), np.add)
    is_leaf = np.bincount(tree.parent[1:], minlength=len(length)) == 0
    lengths = length[is_leaf]
    best = lengths.max()
    with np.errstate(over="ignore", under="ignore"):  # -inf and 0 are what is meant
        others = np.exp(float(eta) * (lengths - best)).sum()
    return float(best) + log(others) / float(eta)


def expected_accepted(tree: Tree, target_probability: Any) -> float:
    """Expected number of accepted tokens, the bonus token not counted: the sum over drafted nodes of path products.

    At each node the emitted token is a sample of the target, at most one child bears it, and the walk goes on there: so
    a node is accepted with the product of the probabilities on its path, and nodes shared by sequences count once. This
    is `block_efficiency` less 1 under the target's own probabilities, for the verifier that samples the target (NSS).

    Args:
        tree: the draft tree.
        target_probability: (n + 1,) T(token | path) at each node; the root's entry is not read.

    Raises:
        InputError: shapes disagree, an entry is no probability, or siblings sum to more than 1.

    Source: OPT-Tree, Eq. (2), with the target's probabilities; beside Group Tree Optimization, Eq. (3)-(5).

    >>> expected_accepted(Tree([-1, 0, 0, 1]), [1, 0.5, 0.25, 0.5])
    1.0
    """
    return float(_reached(tree, target_probability)[1:].sum())


def _reached(tree: Tree, target_probability: Any) -> np.ndarray:
    """(n + 1,) path products, checked."""
    rate = np.array(target_probability, dtype=np.float64)
    if rate.shape != tree.parent.shape:
        raise InputError(
            f"target_probability must have one entry for each of the {len(tree.parent)} nodes, got shape {rate.shape}"
        )
    rate[0] = 1
    bad = ~((rate >= 0) & (rate <= 1))  # NaN as well
    if bad.any():
        node = int(bad.argmax())
        raise InputError(f"target_probability[{node}] must be a probability, got {rate[node]}")
    below = np.bincount(tree.parent[1:], rate[1:], minlength=1)
    if below.max() > 1 + ROUNDING:
        raise InputError(
            f"target_probability of the children of node {below.argmax()} must sum to at most 1, got "
            f"{below.max():.6g}: siblings must bear different tokens, and softmax must be taken in float64"
        )
    return _along_paths(tree, rate, np.multiply)


def _along_paths(tree: Tree, entries: np.ndarray, combine: np.ufunc) -> np.ndarray:
    """`entries` combined along the path from the root to each node; the root's is neutral."""
    total, ancestor = entries.copy(), np.maximum(tree.parent, 0)
    while ancestor.any():  # pointer doubling: log2(depth) rounds
        total = combine(total, total[ancestor])
        ancestor = ancestor[ancestor]
    return total
