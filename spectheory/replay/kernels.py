"""How much of a text each verifier keeps, in plain Python: for every draw rule, in floats and in Fractions.

`siblings` has the same in compiled loops for children that are drawn without replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from spectheory.core.arrays import RandomSource, Vector, accept_ratio, one_of, without
from spectheory.core.draft import DrawRule, top_tokens
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.core.world import DrawPolicy
from spectheory.otlp import Solver
from spectheory.replay.text import LEAST, TargetText
from spectheory.verify.greedy_multi_path import _quotient
from spectheory.verify.outcome import coin, shortfall

LARGEST = 1 / LEAST
"""Products of likelihood ratios are cut here: they only count where they are below 1."""
WeightedDrafts = list[tuple[Any, list[int]]]
Edges = Mapping[tuple[int, int], np.ndarray]
"""For each (place, hits): (n,) the chance that the token of the text is emitted through the child that was the
`place`-th distinct draw and was hit by `hits` draws, divided by its probability under p."""
State = int
"""The node of a tree; in a policy the number of draws that have hit the node."""


@dataclass(frozen=True)
class Shape:
    """A tree or a draw policy, as states that a text passes through on its way down.

    Attributes:
        root: the state at the root.
        rule: how children are drawn.
        draws: called with a depth and a state; the number of draws below a node.
        child: called with the state of a node, and the place among its distinct draws and the number of hits of a
            child; the state of this child.
    """

    root: State
    rule: DrawRule
    draws: Callable[[int, State], int]
    child: Callable[[State, int, int], State]


def shape_of(shape: Tree | DrawPolicy, rule: DrawRule | None) -> Shape:
    """`shape` as states. In a tree the distinct tokens drawn at a node fill its children in order; what grows below a
    node of a policy depends on its depth and on its hits.

    Raises:
        InputError: a tree without a rule, or a policy with another rule than its own.
    """
    if isinstance(shape, DrawPolicy):
        if rule not in (None, shape.rule):
            raise InputError(f"rule must be {shape.rule.name}, the rule of the policy, or left out, got {rule}")
        return Shape(1, shape.rule, shape.draws, lambda state, place, hits: hits)
    if rule is None:
        raise InputError("rule must say how the children of a tree are drawn, such as DrawRule.NO_REPLACEMENT")
    children = shape.child_lists
    return Shape(0, rule, lambda depth, state: len(children[state]), lambda state, place, hits: children[state][place])


def forced_draws(rule: DrawRule, q: Vector, k: int, token: int, rng: RandomSource) -> WeightedDrafts:
    """Drafts that all contain `token`, each with a weight: the sum of weight * f(drafts) is an unbiased estimate of
    E[1{token is drafted} f(drafts)], for every f, over k drafts from q by `rule`.

    A token that is unlikely to be drafted costs no variance in this way. It is put at each place in turn, with the
    probability of that place as the weight; the other drafts are drawn from q without the token. For draws without
    replacement with S_j the mass drawn before place j, the weight of place r is

        q(token) / (1 - S_r) * product over j < r of (1 - q(token) - S_j) / (1 - S_j).

    For independent draws it is (1 - q(token))^r q(token), and the drafts after place r are drawn from q itself.

    Args:
        rule: how children are drawn.
        q: (V,) the draft's distribution.
        k: number of drafts, at least 1.
        token: the token that must be among them.
        rng: a `numpy.random.Generator`, or a `Branch` to enumerate all that can be drawn.
    """
    chance = q[token]
    if not chance > 0:
        return []
    if rule is DrawRule.TOP_K:
        drafts = top_tokens(q, k)
        return [(one_of(q), drafts)] if token in drafts else []
    if k == 1:
        return [(chance, [token])]
    others = without(q, token)
    if rule in (DrawRule.IID, DrawRule.IID_APART):
        free = DrawRule.IID.children(q, k - 1, rng)
        missing = DrawRule.IID.children(others, k - 1, rng) if chance < 1 else []
        weights = ((1 - chance) ** place * chance for place in range(len(missing) + 1))
        return [(weight, [*missing[:place], token, *free[place:]]) for place, weight in enumerate(weights)]
    if rule is DrawRule.NO_REPLACEMENT:
        return in_every_place(q, token, DrawRule.NO_REPLACEMENT.children(others, k - 1, rng) if chance < 1 else [])
    head = top_tokens(q, k - 1)
    rest = q
    for top in head:
        rest = without(rest, top)
    if rule is DrawRule.TOP_K_THEN_ONE:
        if token not in head:
            return [(rest[token], [*head, token])]
        return [(one_of(q), [*head, *_one_draw(rest, rng)])]
    (hub,) = head
    if token != hub:
        return [(chance, [token, hub]), (q[hub] * rest[token], [hub, token])]
    other = _one_draw(rest, rng)
    return [(1 - chance, [*other, hub]), (chance, [hub, *other])] if other else [(one_of(q), [hub])]


def in_every_place(q: Vector, token: int, others: list[int]) -> WeightedDrafts:
    """`token` at each place among draws without replacement from the others."""
    weighted, drawn, passed = [], 0, one_of(q)
    for place in range(len(others) + 1):
        left = max(1 - drawn, q[token])  # rounding must not leave less than the token's own probability
        weighted.append((passed * q[token] / left, [*others[:place], token, *others[place:]]))
        if place < len(others):
            passed = passed * (left - q[token]) / left
            drawn = drawn + q[others[place]]
    return weighted


def _one_draw(q: Vector, rng: RandomSource) -> list[int]:
    """One draw from q; none where q is all 0."""
    return DrawRule.NO_REPLACEMENT.children(q, 1, rng)


def kept_by_ratio(ratios: Shaped[np.ndarray, "n length"]) -> Shaped[np.ndarray, "n lengths"]:
    """The smallest of 1 and the products of the first 1, ..., d of `ratios`, for d = 0 to the length.

    With w_0 = 1, w_d = min(1, w_(d-1) p_d / q_d), block verification keeps d drafted tokens with probability w_d given
    the path, so that a text t is kept with q(t_1..t_d) w_d / p(t_1..t_d) = min(R_d, the value for d - 1), where R_d is
    the product of q / p over the first d tokens.
    """
    kept = [ratios[:, 0] * 0 + 1]
    product = kept[0]
    for ratio in ratios.T:
        with np.errstate(over="ignore"):
            product = product * ratio
        if product.dtype != object:  # a later factor of 0 must give 0, which it does not after infinity
            product = np.minimum(product, LARGEST)
        kept.append(np.minimum(kept[-1], product))
    return np.stack(kept, 1)


def chain_ratios(text: TargetText, length: int) -> Shaped[np.ndarray, "n length"]:
    """Q / p at the token d positions after each position, q that of depth d; 0 after the end."""
    chance = text.at_tokens(text.p)
    return np.stack([_from(text.at_tokens(text.draft_rows(depth)) / chance, depth) for depth in range(length)], 1)


def best_path_ratios(text: TargetText, paths: int, length: int, trunk: int = 0) -> Shaped[np.ndarray, "n length"]:
    """As `chain_ratios`, with the distribution of the best of i.i.d. paths after a trunk in place of q.

    That distribution is autoregressive (see GreedyMultiPathBlock). So two numbers of each position suffice: q of the
    text's token, and the mass of q on the tokens that come before it in the order of p / q.
    """
    below, ratios = text.at_tokens(text.p) * 0, []
    masses = [(text.at_tokens(q), _mass_before(text, q)) for q in text.q]
    for depth in range(trunk + length):
        count = 1 if depth < trunk else paths
        chance, before = (_from(mass, depth) for mass in masses[min(depth, len(masses) - 1)])
        low, high = (below + (1 - below) * mass for mass in (before, before + chance))
        best = chance * _quotient(high, low, count) / _quotient(below * 0 + 1, below, count)
        target = _from(text.at_tokens(text.p), depth)
        ratios.append(best / (target + (target == 0)))
        if count > 1:
            below = low / (high + (high == 0))
    return np.stack(ratios, 1)


def _mass_before(text: TargetText, q: Shaped[np.ndarray, "n V"]) -> Shaped[np.ndarray, " n"]:
    """Mass of q on the tokens that come before the text's in the order of p / q, ties by token."""
    with np.errstate(over="ignore"):
        ratio = text.p / (q + (q == 0))
    own, tokens = text.at_tokens(ratio)[:, None], text.tokens[:, None]
    before = (ratio < own) | ((ratio == own) & (np.arange(q.shape[1]) < tokens))
    return (q * before).sum(1)


def _from(column: Shaped[np.ndarray, " n"], depth: int) -> Shaped[np.ndarray, " n"]:
    """`column` read `depth` positions later; 0 after the end."""
    later = column * 0
    later[: max(0, len(column) - depth)] = column[depth:]
    return later


def edges(text: TargetText, solver: Solver, rule: DrawRule, k: int, rng: RandomSource, *, depth: int = 0) -> Edges:
    """The edges below a node with k drafts, at every position of a text.

    At position i an edge is E[1{token i is drafted as this child} P(token i is emitted)] / p(token i).

    Args:
        text: the text.
        solver: the node solver.
        rule: how drafts are drawn.
        k: number of drafts.
        rng: a `numpy.random.Generator`, or a `Branch`, for the drafts other than the token of the text.
        depth: of the node in the cycle, for drafts whose distribution depends on it.
    """
    found: dict[tuple[int, int], np.ndarray] = {}
    rows = text.draft_rows(depth)
    for position, token in enumerate(text.tokens.tolist()):
        p, q = text.p[position], rows[position]
        for weight, drafts in forced_draws(rule, q, k, token, rng):
            child = child_of(drafts, token, rule)
            if child not in found:
                found[child] = text.at_tokens(text.p) * 0
            emitted = solver._distribution(p, q, drafts)[token] / p[token]
            found[child][position] += weight * emitted
    return found


def child_of(drafts: list[int], token: int, rule: DrawRule) -> tuple[int, int]:
    """(Place among the distinct drafts, number of draws that hit it) of the child through which `token` is emitted."""
    if rule is DrawRule.IID_APART:
        return drafts.index(token), 1
    return list(dict.fromkeys(drafts)).index(token), drafts.count(token)


def kept_top_down(
    text: TargetText, shape: Shape, edges_below: Callable[[int, int], Edges]
) -> Shaped[np.ndarray, "n lengths"]:
    """Chance that a cycle from each position keeps at least 0..L tokens of the text, given the text.

    Args:
        text: the text.
        shape: the tree or the policy.
        edges_below: the edges below nodes with k drafts at a depth, called with k and the depth.
    """
    zero = text.at_tokens(text.p) * 0
    return np.stack([sum(level.values(), start=zero) for level in _top_down_levels(text, shape, edges_below)], 1)


def passed_top_down(
    text: TargetText, tree: Tree, shape: Shape, edges_below: Callable[[int, int], Edges]
) -> Shaped[np.ndarray, "n nodes"]:
    """Chance that a cycle from each position keeps each node of a static tree; see `kept_top_down`."""
    passed = np.zeros((len(text), tree.budget + 1), text.p.dtype)
    for level in _top_down_levels(text, shape, edges_below):
        for node, reach in level.items():
            passed[:, node] = reach
    return passed


def _top_down_levels(
    text: TargetText, shape: Shape, edges_below: Callable[[int, int], Edges]
) -> Iterator[Mapping[State, np.ndarray]]:
    """For each depth the chance, at every position, to reach each state.

    The text walks down the tree as a Markov chain: a node at depth d is reached from position i by an edge at i + d.
    """
    n = len(text)
    level: dict[State, np.ndarray] = {shape.root: text.at_tokens(text.p) * 0 + 1}
    yield level
    for depth in range(n):
        below: dict[State, np.ndarray] = {}
        for state, reach in level.items():
            k = shape.draws(depth, state)
            for (place, hits), edge in edges_below(k, depth).items() if k else ():
                share = reach * 0
                share[: n - depth] = reach[: n - depth] * edge[depth:]
                child = shape.child(state, place, hits)
                below[child] = below[child] + share if child in below else share
        if not below:
            return
        yield below
        level = below


def kept_by_traversal(text: TargetText, shape: Shape, rng: RandomSource) -> Shaped[np.ndarray, "n lengths"]:
    """Chance that a cycle from each position keeps at least 0..L tokens of the text, given the text.

    A child that is visited with weight a is kept, itself or something below it, with probability a on average over what
    is drafted below it. So the children before the text's own are rejected with probability 1 - a each, whatever p and
    q are below them, and the text alone decides: its child is visited with the weight that these rejections leave. What
    reaches a node at depth d along the text, times its weight, over p(t_1..t_d), is the chance to keep d tokens.

    Args:
        text: the text.
        shape: the tree or the policy.
        rng: a `numpy.random.Generator`, for the siblings of the text's tokens; a chain needs none.
    """
    every = [_traversal_levels(text, shape, start, rng) for start in range(len(text))]
    rows = [[sum(share * weight for _, share, weight in level) for level in levels] for levels in every]
    kept = np.zeros((len(text), max(map(len, rows), default=1)), text.p.dtype)
    for start, row in enumerate(rows):
        kept[start, : len(row)] = row
    return kept


def passed_by_traversal(
    text: TargetText, tree: Tree, shape: Shape, rng: RandomSource, perfect: int | None = None
) -> Shaped[np.ndarray, "n nodes"]:
    """Chance that a cycle from each position keeps each node of a static tree, itself or some below it.

    `shape` is the tree as states; `perfect` is the depth of the nodes whose first child is always the token of the
    text. See `kept_by_traversal`.
    """
    passed = np.zeros((len(text), tree.budget + 1), text.p.dtype)
    for start in range(len(text)):
        for level in _traversal_levels(text, shape, start, rng, perfect):
            for node, share, weight in level:
                passed[start, node] += share * weight
    return passed


def _traversal_levels(
    text: TargetText, shape: Shape, start: int, rng: RandomSource, perfect: int | None = None
) -> Iterator[list[tuple[State, Any, Any]]]:
    """The states that the text visits from one position, for one draw of the siblings, depth by depth.

    Each comes with its share, and the weight with which it is visited.
    """
    one = one_of(text.p[start])
    level = [(shape.root, one, one)]
    for depth, position in enumerate(range(start, len(text))):
        yield level
        if depth == perfect:
            level = [(shape.child(state, 0, 1), *masses) for state, *masses in level if shape.draws(depth, state)]
        else:
            level = [
                child
                for state, share, weight in level
                for child in _children(text, shape, depth, position, state, share, weight, rng)
            ]
        if not level:
            return
    yield level


def _children(
    text: TargetText, shape: Shape, depth: int, position: int, state: State, share: Any, weight: Any, rng: RandomSource
) -> list[tuple[State, Any, Any]]:
    """(State, share, weight) of the children through which the token at `position` may be kept."""
    k = shape.draws(depth, state)
    if not k:
        return []
    token, p, q, found = int(text.tokens[position]), text.p[position], text.draft_rows(depth)[position], []
    apart = shape.rule is DrawRule.IID_APART
    for chance, drafts in forced_draws(shape.rule, q, k, token, rng):
        siblings = drafts if apart else list(dict.fromkeys(drafts))
        passed, own = _visited(weight, p, q, siblings[: siblings.index(token)], token, apart)
        with np.errstate(over="ignore"):
            parted = min(share * chance * passed / p[token], LARGEST)
        found.append((shape.child(state, *child_of(drafts, token, shape.rule)), parted, own))
    return found


def _visited(weight: Any, p: Vector, q: Vector, before: list[int], token: int, apart: bool) -> tuple[Any, Any]:
    """The chance that all of the siblings `before` are rejected, and the weight with which `token` is then visited."""
    passed = one_of(p)
    for sibling in before:
        passed = passed * (1 - accept_ratio(weight * p[sibling], q[sibling]))
        lacking, p = shortfall(weight, p, q)
        weight = coin(lacking, weight)
        q = q if apart else without(q, sibling)
    return passed, accept_ratio(weight * p[token], q[token])
