"""OPT-Tree, Section 1: what a layer of a tree can hold."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.verdict import Verdict, claim, second


@claim("O-LAYER", source="OPT-Tree, Section 1")
def layer(effort: int) -> Verdict:
    """Of drafts with tree structure: "the same token can only appear once in the same tree layer".

    A layer is the nodes of one depth; the trees are those of Section 3, whose nodes have the draft's most probable
    tokens as children.
    """
    law = [Fraction(3, 5), Fraction(2, 5)]
    hat = {(): Fraction(1)}
    for path in [(), (0,), (1,)]:
        hat |= {(*path, token): hat[path] * law[token] for token in (0, 1)}
    nodes = sorted((path for path in hat if path), key=lambda path: (-hat[path], path))
    size = next(n for n in range(1, 7) if len({(len(x), x[-1]) for x in nodes[:n]}) < n)
    tree = nodes[:size]
    place = {path: at for at, path in enumerate([(), *tree])}
    return Verdict(
        "false",
        f"With the law (3/5, 2/5) behind every context the {size} most probable nodes, OPT-Tree's own choice, have the "
        "same token twice at depth 2, behind each of the two tokens of depth 1: they are different texts, and both are "
        "needed. Fewer nodes of this draft have no token twice.",
        "the smallest number of nodes of one draft, by enumeration",
        {
            "law": law,
            "parent": [-1, *(place[path[:-1]] for path in tree)],
            "node": ["", *("".join("AB"[token] for token in path) for path in tree)],
            "p_hat": {"".join("AB"[token] for token in path): hat[path] for path in tree},
        },
        "The same token appears once among the children of a node: a tree has each text once.",
    )


@second("O-LAYER")
def layer_again(verdict: Verdict) -> str:
    """The names of the nodes."""
    names = verdict.case["node"][1:]
    last = [(len(name), name[-1]) for name in names]
    assert len(set(names)) == len(names)
    assert len(set(last)) < len(last)
    worth, law = verdict.case["p_hat"], dict(zip("AB", verdict.case["law"], strict=True))
    below = {name + token: worth[name] * p for name in names for token, p in law.items() if name + token not in names}
    assert min(worth.values()) >= max(below.values())
    return "the names of the nodes are different texts, two of which end alike, and no node left out is more probable."
