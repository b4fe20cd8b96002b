"""The draft-tree reward of GTO, and the expected number of accepted tokens if the target's tokens are sampled."""

from __future__ import annotations

from math import log
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Float64

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree, along_paths

ROUNDING = 1e-9
"""The probabilities of siblings may sum to more than 1 by this much, because of rounding in float64."""


def draft_tree_reward(tree: Tree, target_probability: Any, eta: float) -> float:
    """The reward r = (1 / eta) log(sum_i exp(eta L_i)), in tokens, where L_i is the expected length of sequence i.

    The sequences are the N paths from the root to the leaves. L_i is the sum, over the drafted nodes of sequence i, of
    the product of the probabilities on the path to the node.

    Args:
        tree: the draft tree.
        target_probability: (n + 1,) T(token | path), the target's probability of the token of each node; the entry of
            the root is not read.
        eta: above 0.

    Raises:
        InputError: an argument is out of range.

    L_i is the expected number of accepted tokens if sequence i is drafted alone, the target samples a token at each
    node (or takes its argmax, if the probabilities are 0 and 1), and the walk goes on as long as the draft has it.

    The reward is not the expected number of accepted tokens of the tree, which is `expected_accepted`:

    - Nodes that several sequences share count once for each sequence.
    - The number of sequences alone adds log(N) / eta. For eta = 1, one leaf of probability 0.6 has r = 0.6. With a
      second leaf, of probability 0, r = 1.04.
    - The reward can rise while the expectation falls, so Theorem 1(a) fails. For the target (4, 3, 3, 1) / 11 and
      eta = 6, two leaves of 3 and 3 have r = 0.388 and 6/11 expected tokens; two leaves of 4 and 1 have r = 0.393 and
      5/11 expected tokens.
    - Other verifiers accept with probabilities that also depend on the draft's distribution.

    Bounds and limits: max L <= r <= max L + log(N) / eta. As eta grows, r tends to max L. As eta tends to 0 and N > 1,
    r grows without bound; r - log(N) / eta tends to the average of L. (The text below Eq. 5 says this of r itself.) The
    bounds in the appendix of the source hold for the sum of the exponentials, used here, and not for their mean. The
    root alone has reward 0. The exponentials are of eta (L_i - max L), which cannot overflow.

    Source: Group Tree Optimization, Eq. (2)-(5). Their symbols are missing in the source; they are restored here from
    its text and its Appendix A.

    >>> round(draft_tree_reward(Tree([-1, 0, 0]), [1, 0.6, 0], 1), 4)
    1.0375
    """
    reached = _reached(tree, target_probability)
    if isinstance(eta, bool) or not isinstance(eta, Real) or not 0 < eta < np.inf:
        raise InputError(f"eta must be finite and above 0, got {eta!r:.80}")
    length = along_paths(tree.parent, np.append(0.0, reached[1:]), np.add)
    is_leaf = np.bincount(tree.parent[1:], minlength=len(length)) == 0
    lengths = length[is_leaf]
    best = lengths.max()
    with np.errstate(over="ignore", under="ignore"):  # an exponent of -inf and its exponential 0 are correct here
        others = np.exp(float(eta) * (lengths - best)).sum()
    return float(best) + log(others) / float(eta)


def expected_accepted(tree: Tree, target_probability: Any) -> float:
    """The expected number of accepted tokens if the target samples a token at each node; the bonus token not counted.

    At each node, at most one child holds the sampled token, and the walk goes on at this child. So a node is accepted
    with the product of the probabilities on its path, and the result is the sum of these products over all drafted
    nodes. This is `block_efficiency` - 1, with the target's probabilities as rates, of the verifier that samples the
    target (NSS).

    Args:
        tree: the draft tree.
        target_probability: (n + 1,) T(token | path), the target's probability of the token of each node; the entry of
            the root is not read.

    Raises:
        InputError: the shape is wrong, an entry is not a probability, or siblings sum to more than 1.

    Source: OPT-Tree, Eq. (2), with the target's probabilities. Compare Group Tree Optimization, Eq. (3)-(5).

    >>> expected_accepted(Tree([-1, 0, 0, 1]), [1, 0.5, 0.25, 0.5])
    1.0
    """
    return float(_reached(tree, target_probability)[1:].sum())


def _reached(tree: Tree, target_probability: Any) -> Float64[np.ndarray, " nodes"]:
    """The products of the probabilities on the paths, checked."""
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
            f"{below.max():.6g}: siblings must hold different tokens, and softmax must be taken in float64"
        )
    return along_paths(tree.parent, rate, np.multiply)
