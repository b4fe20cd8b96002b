"""Draft trees as sets of token paths, and what the target makes of them, in rational arithmetic.

The target is given by the probability of every path, the product of its conditional probabilities. The target emits
tokens of its own and the draft is followed as long as it agrees: so a lossless verifier treats tokens that were drafted
deterministically, as GTO's are. L_i of a branch, Eq. (3) and (4), is the sum of the probabilities of the paths on the
way to its leaf.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from proofs_check.gto.exponentials import sign, times
from proofs_check.small_drafts import Hat, Nodes, Path, parents, worth

ETAS = [Fraction(1, 2), Fraction(1), Fraction(2), Fraction(5)]


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
