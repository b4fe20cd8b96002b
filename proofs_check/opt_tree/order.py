"""What p-hat says of a node and the nodes below it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from proofs_check.opt_tree.algorithm import cases, over
from proofs_check.small_drafts import Hat, Nodes, Path, best_worth, is_tree, named, select, selections, shown, worth
from proofs_check.verdict import Verdict, claim, every, smallest


@claim("O-3.1", source="OPT-Tree, Theorem 3.1")
def theorem_3_1(effort: int) -> Verdict:
    """For any two nodes of the tree, if v_i is in the subtree of v_j, then p-hat of v_i is less than p-hat of v_j.

    Read for v_i other than v_j, and for every draft, a sure one included.
    """

    def descents() -> Iterator[tuple[Hat, Path, Path]]:
        for _, hat in cases(effort):
            yield from ((hat, below[:length], below) for below in hat for length in range(1, len(below)))

    def repaired(case: tuple[Hat, Path, Path]) -> bool:
        hat, above, below = case
        way = [hat[below[:length]] for length in range(len(above), len(below) + 1)]
        strict = way[0] > 0 and any(child / parent < 1 for parent, child in pairwise(way) if parent)
        return hat[below] < hat[above] if strict else hat[below] == hat[above]

    hat, above, below = smallest(descents(), lambda case: case[0][case[2]] >= case[0][case[1]] > 0)
    pairs = every(descents(), repaired)
    one = np.float32(1)
    gap = smallest(range(1, 100), lambda gap: one / (one + np.exp(np.float32(-gap))) == one)
    return Verdict(
        "corrected",
        f"A draft probability of 1 leaves p-hat as it is, and a float32 softmax gives 1 from a logit gap of {gap} on. "
        "p-hat of v_i is that of v_j times the draft's probabilities on the way, each at most 1, which proves the "
        f"repaired statement; it was also compared on {pairs:,} pairs of nodes in {over(effort)}.",
        "a derivation, and enumeration in Fractions",
        shown(hat, v_j=named([above])[0], v_i=named([below])[0]),
        "p-hat of v_i is at most that of v_j; less if that is above 0 and a draft probability on the way is not 1.",
    )


@claim("O-SUB", source="OPT-Tree, Section 3, before Algorithm 1")
def largest_nodes(effort: int) -> Verdict:
    """The n nodes with the largest p-hat are a subtree of T that contains the root.

    Read for every choice of n nodes that are largest, where several are.
    """

    def sizes() -> Iterator[tuple[int, Hat]]:
        return ((n, hat) for depth, hat in cases(effort) for n in range(1, depth + 1))

    def choices() -> Iterator[tuple[Hat, Nodes]]:
        return ((hat, chosen) for n, hat in sizes() for chosen in selections(frozenset(hat), n, hat))

    def repaired(case: tuple[int, Hat]) -> bool:
        n, hat = case
        chosen = select(frozenset(hat), n, hat)
        return is_tree(chosen) and worth(chosen, hat) == best_worth(frozenset(hat), n, hat)

    hat, chosen = smallest(choices(), lambda case: not is_tree(case[1]) and all(case[0][node] > 0 for node in case[1]))
    selected = every(sizes(), repaired)
    return Verdict(
        "corrected",
        "The printed proof needs Theorem 3.1 to be strict, and a tie can orphan a node. With the tie rule a parent "
        "goes before its child, as its p-hat is no smaller and its depth is less; and no set of n nodes is worth more "
        f"than the n largest. All {selected:,} selections were trees, and no tree of their size was worth more: "
        f"{over(effort)}, and every smaller n.",
        "a derivation, and enumeration in Fractions of every draft and every tree",
        shown(hat, chosen, n=len(chosen)),
        "With ties going to the node of smaller depth they are, and no subtree of n nodes has a larger sum of p-hat.",
    )
