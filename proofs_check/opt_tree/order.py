"""p-hat of a node against p-hat of the nodes below it."""

from __future__ import annotations

from typing import Any

from proofs_check.claims import Finding, claim, smallest
from proofs_check.opt_tree.algorithm import cases, shown_grids
from proofs_check.small_drafts import Hat, Nodes, best_worth, is_tree, select, selections, shown, worth


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
