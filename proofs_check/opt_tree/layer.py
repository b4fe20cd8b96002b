"""OPT-Tree, Section 1: what a layer of a tree can hold."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.claims import Case, Finding, claim, second
from proofs_check.small_drafts import same_law, shown


@claim("O-LAYER")
def layer(effort: int) -> Finding:
    law = (Fraction(3, 5), Fraction(2, 5))
    hat = same_law(law, 2)
    nodes = sorted(hat, key=lambda path: (-hat[path], path))
    size = next(n for n in range(1, 7) if len({(len(x), x[-1]) for x in nodes[:n]}) < n)
    tree = {path: hat[path] for path in nodes[:size]}
    return Finding(
        {"size": size},
        {"law": law, **shown(tree)},
        cases={
            "tree": (
                {
                    "one_layer_has_a_token_twice": len({(len(x), x[-1]) for x in nodes[:n]}) < n,
                    "one_node_has_a_token_twice": len({(x[:-1], x[-1]) for x in nodes[:n]}) < n,
                }
                for n in range(1, 7)
            )
        },
    )


@second("O-LAYER")
def layer_again(case: Case) -> None:
    """Second check: two nodes of one layer end with the same token, and no other node has a larger p-hat."""
    names = case["node"][1:]
    last = [(len(name), name[-1]) for name in names]
    assert len(set(names)) == len(names)
    assert len(set(last)) < len(last)
    worth, law = case["p_hat"], dict(zip("AB", case["law"], strict=True))
    below = {name + token: worth[name] * p for name in names for token, p in law.items() if name + token not in names}
    assert min(worth.values()) >= max(below.values())
