"""Draft trees as sets of token paths, what the target makes of them, and rewards compared without doubt.

The target is given by the probability of every path, the product of its conditional probabilities. The target emits
tokens of its own and the draft is followed as long as it agrees: so a lossless verifier treats tokens that were drafted
deterministically, as GTO's are. L_i of a branch, Eq. (3) and (4), is the sum of the probabilities of the paths on the
way to its leaf.

r = (1/eta) log(sum_i exp(eta L_i)) is compared through the sums, with which it rises. Their difference is enclosed
between two rational numbers, until 0 is outside. It is unless the sums are equal, and sums with rational exponents are
equal only term by term (Lindemann and Weierstrass: exponentials of distinct algebraic numbers are linearly independent
over the algebraic numbers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from mpmath import iv

from proofs_check.small_drafts import Hat, Nodes, Path, parents, worth

ETAS = [Fraction(1, 2), Fraction(1), Fraction(2), Fraction(5)]


def times(lengths: Iterable[Fraction], eta: Fraction) -> list[Fraction]:
    """The exponents eta L_i, one per branch."""
    return [eta * length for length in lengths]


def sign(left: Iterable[Fraction], right: Iterable[Fraction]) -> int:
    """The sign of sum exp(left) - sum exp(right)."""
    counts = Counter(left)
    counts.subtract(right)
    terms = [(count, x) for x, count in counts.items() if count]
    iv.prec = 53
    while terms:
        found = sum(count * iv.exp(iv.mpf(x.numerator) / x.denominator) for count, x in terms)
        if found > 0 or found < 0:
            return 1 if found > 0 else -1
        iv.prec *= 2
    return 0


def leaves(tree: Nodes) -> list[Path]:
    """The last nodes of the branches, in order."""
    inner = {node[:-1] for node in tree}
    return sorted(node for node in tree if node not in inner)


def length(leaf: Path, target: Hat) -> Fraction:
    """The length L_i of a branch."""
    return sum((target[leaf[:j]] for j in range(1, len(leaf) + 1)), Fraction(0))


def lengths(tree: Nodes, target: Hat) -> list[Fraction]:
    """L of every branch."""
    return [length(leaf, target) for leaf in leaves(tree)]


def rises(old: Iterable[Fraction], new: Iterable[Fraction], eta: Fraction) -> bool:
    """Whether the reward of the branch lengths `new` is above that of `old`."""
    return sign(times(new, eta), times(old, eta)) > 0


def drawn(tree: Nodes, target: Hat) -> dict[str, Any]:
    """The tree as data: parents, names and the target's probability of each path, the root first."""
    return {
        **parents(tree),
        "p": [Fraction(1), *(target[node] for node in sorted(tree, key=lambda node: (len(node), node)))],
        "branch_lengths": lengths(tree, target),
        "expected_accepted": worth(tree, target),
    }
