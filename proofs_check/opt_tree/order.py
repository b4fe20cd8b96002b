"""p-hat of a node against p-hat of the nodes below it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from proofs_check.claims import Finding, claim, every, smallest
from proofs_check.opt_tree.algorithm import cases, shown_grids
from proofs_check.small_drafts import Hat, Nodes, Path, best_worth, is_tree, named, select, selections, shown, worth


@claim("O-3.1")
def theorem_3_1(effort: int) -> Finding:
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
    return Finding(
        "corrected",
        {"gap": gap, "pairs": pairs, "grids": shown_grids(effort)},
        shown(hat, v_j=named([above])[0], v_i=named([below])[0]),
    )


@claim("O-SUB")
def largest_nodes(effort: int) -> Finding:
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
    return Finding("corrected", {"selected": selected, "grids": shown_grids(effort)}, shown(hat, chosen, n=len(chosen)))
