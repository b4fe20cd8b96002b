"""p-hat of a node against p-hat of the nodes below it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from proofs_check.claims import Finding, claim, every, smallest
from proofs_check.opt_tree.algorithm import cases, shown_grids
from proofs_check.small_drafts import Hat, Nodes, Path, best_worth, is_tree, named, select, selections, shown, worth


@claim("O-3.1")
def theorem_3_1(effort: int) -> Finding:
    descents = [
        (hat, below[:length], below) for _, hat in cases(effort) for below in hat for length in range(1, len(below))
    ]

    def repaired(hat: Hat, above: Path, below: Path) -> bool:
        way = [hat[below[:length]] for length in range(len(above), len(below) + 1)]
        strict = way[0] > 0 and any(child / parent < 1 for parent, child in pairwise(way) if parent)
        return hat[below] < hat[above] if strict else hat[below] == hat[above]

    hat, above, below = smallest(descents, lambda hat, above, below: hat[below] >= hat[above] > 0)
    pairs = every(descents, repaired)
    one = np.float32(1)
    gap = smallest(range(1, 100), lambda gap: one / (one + np.exp(np.float32(-gap))) == one)
    return Finding(
        {"gap": gap, "pairs": pairs, "grids": shown_grids(effort)},
        shown(hat, v_j=named([above])[0], v_i=named([below])[0]),
        kept=pairs,
    )


@claim("O-SUB")
def largest_nodes(effort: int) -> Finding:
    sizes = [(n, hat) for depth, hat in cases(effort) for n in range(1, depth + 1)]
    choices = ((hat, chosen) for n, hat in sizes for chosen in selections(frozenset(hat), n, hat))

    def orphaned(hat: Hat, chosen: Nodes) -> bool:
        return not is_tree(chosen) and all(hat[node] > 0 for node in chosen)

    def repaired(n: int, hat: Hat) -> bool:
        chosen = select(frozenset(hat), n, hat)
        return is_tree(chosen) and worth(chosen, hat) == best_worth(frozenset(hat), n, hat)

    hat, chosen = smallest(choices, orphaned)
    selected = every(sizes, repaired)
    return Finding(
        {"selected": selected, "grids": shown_grids(effort)}, shown(hat, chosen, n=len(chosen)), kept=selected
    )
