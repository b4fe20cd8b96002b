"""Verifiers of whole trees, written as in engines and papers: functions that draw."""

from __future__ import annotations

from typing import Any

from spectheory.certify.zoo.chains import published
from spectheory.certify.zoo.nodes import multi_round_residual, naive
from spectheory.certify.zoo.specimen import Emit, Specimen, documented, top_down
from spectheory.core.arrays import positive_part, residual, without
from spectheory.core.chance import draw
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.world import Levels, Paths


def _traverse(draft: Draft, p: Any, rng: Any, q_left: Any, weight: Any, order: Any) -> tuple[int, int]:
    """Traversal verification, arXiv 2505.12398. The arguments are the parts that ports get wrong."""

    def visit(node: int, a: Any) -> tuple[int, int] | None:
        target, drawn_from = p[node], draft.q[node]
        for child in order(draft, node):
            token = int(draft.tokens[child])
            found = visit(child, min(1, a * ratio(target[token], drawn_from[token])))
            if found:
                return found
            rest = positive_part(a * target - drawn_from)
            mass = rest.sum()
            a = weight(mass, a, 1 - drawn_from[token])
            target = rest / mass if mass > 0 else target
            drawn_from = q_left(drawn_from, token)
        return (node, draw(target, rng)) if node == 0 or rng.random() < a else None

    found = visit(0, 1)
    assert found
    return found


def ratio(p: Any, q: Any) -> Any:
    """P / q; if q is 0, it is 1 for p > 0 and else 0."""
    return p / q if q > 0 else int(p > 0)


def _in_draw_order(draft: Draft, node: int) -> list[int]:
    return list(dict.fromkeys(draft.draws[node]))


def _by_token(draft: Draft, node: int) -> list[int]:
    return sorted(_in_draw_order(draft, node), key=lambda child: int(draft.tokens[child]))


def traversal(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Traversal verification. Lossless."""
    return _traverse(draft, p, rng, without, published, _in_draw_order)


def traversal_with_mass_left(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """After a rejection, the parent's weight is the residual mass over the remaining mass of q. Seen in a port."""

    def weight(mass: Any, a: Any, left: Any) -> Any:
        return min(1, mass / left) if left > 0 else 0

    return _traverse(draft, p, rng, without, weight, _in_draw_order)


def traversal_merged_q_unchanged(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Repeated draws are merged, and q is not changed after a rejection."""
    return _traverse(draft, p, rng, lambda q, token: q, published, _in_draw_order)


def traversal_sorted(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Children are visited in order of token id, not in the order of their draws."""
    return _traverse(draft, p, rng, without, published, _by_token)


def longest_of_paths(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Each drafted path is verified by rejection sampling on its own, and the longest result is kept."""
    best: tuple[int, int] = (0, -1)
    for first in draft.draws[0]:
        node, drawn = 0, (first,)
        while drawn and rng.random() * draft.q[node][draft.tokens[drawn[0]]] < p[node][draft.tokens[drawn[0]]]:
            node, drawn = drawn[0], draft.draws[drawn[0]]
        distribution = residual(p[node], draft.q[node]) if drawn else p[node]
        token = draw(distribution, rng)
        if best[1] < 0 or draft.tree.depth[node] > draft.tree.depth[best[0]]:
            best = (node, token)
    return best


def trunk_read_k_times(emit: Emit) -> Any:
    """A faulty verifier of delayed trees: `emit` gets the one token of a trunk node twice, as if drawn twice."""
    node_rule = top_down(lambda p, q, drafts, rng: emit(p, q, (drafts * 2)[:2], rng), DrawRule.IID)
    node_rule.__name__ = "trunk_read_k_times"
    return node_rule


IID, SWOR = DrawRule.IID, DrawRule.NO_REPLACEMENT
MERGED = (Levels((2,)), Paths(2, 2), Levels((3,)))
TRUNKED = (Levels((1, 2)), Paths(2, 1, trunk=1))


def _with_rule(given: Any, rule: DrawRule) -> Any:
    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
        return given(draft, p, rng)

    verify.__name__, verify.__doc__ = given.__name__, given.__doc__
    verify.rules = (rule,)  # type: ignore[attr-defined]
    return verify


TREES = (
    documented("traversal-mass-left", _with_rule(traversal_with_mass_left, SWOR), False),
    documented("traversal-merged-q-unchanged", traversal_merged_q_unchanged, False, MERGED),
    documented("traversal-sorted", _with_rule(traversal_sorted, SWOR), False),
    documented("longest-of-k-paths", longest_of_paths, False, MERGED),
    Specimen(
        "trunk-k-times", trunk_read_k_times.__doc__ or "", trunk_read_k_times(multi_round_residual), False, TRUNKED
    ),
    documented("traversal", _with_rule(traversal, SWOR), True),
    documented("traversal-merged", _with_rule(traversal, IID), True, MERGED),
    Specimen(
        "traversal-apart",
        "Traversal with a node of its own for each draw, and q unchanged. Lossless.",
        _with_rule(traversal_merged_q_unchanged, DrawRule.IID_APART),
        True,
    ),
    Specimen(
        "naive-on-delayed-trees",
        "Rejection sampling that reads the trunk once. Lossless.",
        top_down(naive, IID),
        True,
        TRUNKED,
    ),
)
