"""GTO, Lemma 1: whether a longer branch makes longer acceptance more probable."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.gto.reward import library_tree, supported, words
from proofs_check.gto.trees import drawn, leaves, lengths
from proofs_check.small_drafts import Hat, Nodes, kept, texts, worth
from spectheory import gto

FORK: Nodes = frozenset({(0,), (0, 0), (0, 1)})
"""Two branches, AA and AB, that share their first token."""


def tails(tree: Nodes, target: Hat) -> list[Fraction]:
    """P(E_1), P(E_2), ...: the sum over the nodes of each depth (claim T-TAIL)."""
    deepest = max(map(len, target))
    return [worth((node for node in tree if len(node) == j), target) for j in range(1, deepest + 1)]


def targets(denominator: int) -> Iterator[Hat]:
    """Full support: P(A) = a < 1, and after A the tokens A and B with b + c < 1, all multiples of 1/denominator."""
    parts = [Fraction(k, denominator) for k in range(1, denominator)]
    for a, b, c in product(parts, repeat=3):
        if b + c < 1:
            yield {(0,): a, (0, 0): a * b, (0, 1): a * c}


def raised(old: Hat, new: Hat) -> bool:
    """Whether L of AA is larger, L of AB the same, and P(E_2) and the expectation are smaller."""
    before, after = lengths(FORK, old), lengths(FORK, new)
    if not (after[0] > before[0] and after[1] == before[1]):
        return False
    return tails(FORK, new)[1] < tails(FORK, old)[1] and sum(tails(FORK, new)) < sum(tails(FORK, old))


@claim("T-L1")
def lemma_1(effort: int) -> Finding:
    pairs = ((old, new) for denominator in range(2, 9) for old, new in product(list(targets(denominator)), repeat=2))
    old, new = smallest(pairs, raised)

    def appended() -> Iterator[tuple[Nodes, Nodes, Hat, int]]:
        for tree, target in supported(effort):
            for leaf in leaves(tree):
                for node in (node for node in target if len(node) > len(leaf) and node[: len(leaf)] == leaf):
                    grown = tree | {node[:j] for j in range(len(leaf) + 1, len(node) + 1)}
                    yield tree, grown, target, len(leaf)

    def values(tree: Nodes, grown: Nodes, target: Hat, start: int) -> Iterator[dict[str, Any]]:
        end = max(len(node) for node in grown - tree)
        before, after = walked_tails(tree, target), walked_tails(grown, target)
        for j, (was, now) in enumerate(zip(before, after, strict=True), 1):
            yield {"P_E_j": now, "P_E_j_before": was, "new_depth": start < j <= end}

    def changed() -> Iterator[dict[str, Any]]:
        for j, (was, now) in enumerate(zip(tails(FORK, old), tails(FORK, new), strict=True), 1):
            yield {"P_E_j": now, "P_E_j_before": was, "new_depth": j == 2}

    every_one = [*appended()]
    return Finding(
        {"count": len(every_one), "cases": words(effort)},
        {"old": shown(old), "new": shown(new)},
        cases={
            "depth_with_another_target": changed(),
            "depth_with_appended_tokens": (depth for one in every_one for depth in values(*one)),
        },
    )


def walked_tails(tree: Nodes, target: Hat) -> list[Fraction]:
    """P(E_j) by walking every text."""
    deepest = max(map(len, target))
    return [sum((p for text, p in texts(target) if kept(tree, text) >= j), Fraction(0)) for j in range(1, deepest + 1)]


def shown(target: Hat) -> dict[str, Any]:
    return {"tails": tails(FORK, target), **drawn(FORK, target)}


@second("T-L1")
def _(case: Case) -> dict[str, Any]:
    old, new = case["old"], case["new"]
    found = []
    for case in (old, new):
        p = dict(zip(case["node"], case["p"], strict=True))
        law = {"": {"A": p["A"]}, "A": {"A": p["AA"] / p["A"], "B": p["AB"] / p["A"]}}
        for row in law.values():
            row["C"] = 1 - sum(row.values())  # what no branch holds
            assert min(row.values()) > 0
        emitted = {x + y: law[""][x] * law["A"].get(y, Fraction(0)) for x in "A" for y in "ABC"} | {"C": law[""]["C"]}
        assert sum(emitted.values()) == 1
        counts = {text: max(k for k in range(3) if text[:k] in p) for text in emitted}
        mean = [sum((q for text, q in emitted.items() if counts[text] >= j), Fraction(0)) for j in (1, 2)]
        assert mean == case["tails"]
        assert abs(float(sum(mean)) - gto.expected_accepted(*library_tree(case))) < 1e-12
        alone = [sum(p[leaf[:k]] for k in (1, 2)) for leaf in ("AA", "AB")]
        assert alone == case["branch_lengths"]
        found.append((alone, mean))
    (before, was), (after, now) = found
    assert after[0] > before[0]
    assert after[1] == before[1]
    assert now[1] < was[1]
    assert sum(now) < sum(was)
    return {"was": was[1], "now": now[1]}
