"""p-hat of a node against p-hat of the nodes below it."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from proofs_check.claims import Finding, claim, smallest
from proofs_check.opt_tree.algorithm import cases, shown_grids
from proofs_check.small_drafts import Hat, Nodes, Path, best_worth, is_tree, named, select, selections, shown, worth


@claim("O-3.1")
def theorem_3_1(effort: int) -> Finding:
    descents = [
        (hat, below[:length], below) for _, hat in cases(effort) for below in hat for length in range(1, len(below))
    ]

    def values(hat: Hat, above: Path, below: Path) -> dict[str, Fraction]:
        way = [hat[below[:length]] for length in range(len(above), len(below) + 1)]
        least = min((child / parent for parent, child in pairwise(way) if parent), default=Fraction(1))
        return {"p_hat_i": hat[below], "p_hat_j": hat[above], "least_probability": least}

    hat, above, below = smallest(descents, lambda hat, above, below: hat[below] >= hat[above] > 0)
    pairs = len(descents)
    one = np.float32(1)
    gap = smallest(range(1, 100), lambda gap: one / (one + np.exp(np.float32(-gap))) == one)
    return Finding(
        {"gap": gap, "pairs": pairs, "grids": shown_grids(effort)},
        shown(hat, v_j=named([above])[0], v_i=named([below])[0]),
        cases={"pair": (values(*one) for one in descents)},
    )


@claim("O-SUB")
def largest_nodes(effort: int) -> Finding:
    sizes = [(n, hat) for depth, hat in cases(effort) for n in range(1, depth + 1)]
    choices = ((hat, chosen) for n, hat in sizes for chosen in selections(frozenset(hat), n, hat))

    def orphaned(hat: Hat, chosen: Nodes) -> bool:
        return not is_tree(chosen) and all(hat[node] > 0 for node in chosen)

    def values(n: int, hat: Hat) -> dict[str, Any]:
        chosen = select(frozenset(hat), n, hat)
        return {"is_a_tree": is_tree(chosen), "worth": worth(chosen, hat), "best": best_worth(frozenset(hat), n, hat)}

    hat, chosen = smallest(choices, orphaned)
    ties = ((hat, one) for n, hat in sizes for one in selections(frozenset(hat), n, hat))
    return Finding(
        {"selected": len(sizes), "grids": shown_grids(effort)},
        shown(hat, chosen, n=len(chosen)),
        cases={
            "choice": ({"is_a_tree": is_tree(one)} for _, one in ties),
            "choice_by_depth": (values(*one) for one in sizes),
        },
    )
