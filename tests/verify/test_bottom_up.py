"""Verifiers that judge children before their parent: one construction gives Block, Traversal, UniVer and more."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory import Draft, DrawRule, Levels, Paths, World, branches
from spectheory.core.chance import draw
from spectheory.otlp import RRS, GreedyTopK, Khisti, Naive, OptimalTransport, Solver, SpecHub, SpecInfer, SpecTr
from spectheory.verify import Block, BottomUp, Traversal, UniVer, Verifier
from tests.enumeration import exact
from tests.verify.random_drafts import CHAINS, HUBS, OTHERS, TOPS, TREES, WIDE, grown, joint, random_world
from tests.verify.test_verifiers import check_that_the_target_is_kept

ONE_NODE_FOR_EQUAL_TOKENS = [policy for policy in (*TREES, *OTHERS, *WIDE) if policy.rule is not DrawRule.IID_APART]


@pytest.mark.parametrize(
    ("verifier", "known", "policies"),
    [
        (BottomUp(Naive()), Block(), [chain for chain in CHAINS if chain.rule in Naive.rules]),
        (BottomUp(RRS()), Traversal(), ONE_NODE_FOR_EQUAL_TOKENS),
        (BottomUp(GreedyTopK()), UniVer(), TOPS),
    ],
    ids=lambda x: str(x) if isinstance(x, Verifier) else "",
)
def test_it_is_another_verifier_draft_by_draft(verifier: Verifier, known: Verifier, policies: list[Any]) -> None:
    for seed in range(60):
        draft, p = grown(policies[seed % len(policies)], seed, 2 + seed % 2)
        assert joint(verifier.outcome(draft, p)) == joint(known.outcome(draft, p))


SOLVERS: list[tuple[Solver, list[Any]]] = [
    (SpecInfer(), [Levels((2,)), Levels((1, 2)), Levels((2, 1))]),
    (SpecTr(), [Levels((2,)), Levels((1, 2)), Levels((2, 1))]),
    (Khisti(truncation=2), [Levels((2,)), Levels((2, 1)), Levels((3,))]),
    (SpecHub(), HUBS),
    (OptimalTransport(), [Levels((2,)), Levels((2, 1)), Paths(2, 1, 1)]),
    (OptimalTransport(DrawRule.NO_REPLACEMENT), [Levels((2, 1), DrawRule.NO_REPLACEMENT)]),
]


@pytest.mark.parametrize(("solver", "policies"), SOLVERS, ids=lambda x: str(x) if isinstance(x, Solver) else "")
def test_every_lossless_solver_makes_a_lossless_verifier(solver: Solver, policies: list[Any]) -> None:
    for case in range(12):
        world = random_world(np.random.default_rng(case), 2)
        check_that_the_target_is_kept(BottomUp(solver), world, policies[case % len(policies)])


def allocated(w: Fraction, p: Any, q: Any, top: list[int], drawn: int) -> tuple[dict[int, Fraction], Any, Fraction]:
    """UniVer's shares at one node, from the formulas of its docstring: children, next tokens, rejection."""
    rest = [Fraction(0) if token in top else mass for token, mass in enumerate(q)]
    rest = [mass / sum(rest) for mass in rest]
    a = min(Fraction(1), w * p[drawn] / rest[drawn])
    z = sum((max(r - w * x, Fraction(0)) for r, x in zip(rest, p, strict=True)), Fraction(0))
    left = (1 - a) / z if z else Fraction(0)
    own = [Fraction(0) if t in top else left * max(w * x - r, 0) for t, (r, x) in enumerate(zip(rest, p, strict=True))]
    return {drawn: a, **{token: left * w * p[token] for token in top}}, own, left * (1 - w)


def test_univer_shares_the_weight_of_a_node_as_its_formulas_say() -> None:
    """On two levels: 1 + 1 and 2 children, so that the inner node has a weight below 1."""
    policy = Levels((1, 2), DrawRule.TOP_K_THEN_ONE)
    for seed in range(60):
        draft, p = grown(policy, seed, 3)
        if len(draft.draws[1]) < 2:
            continue
        first, top, drawn = (int(draft.tokens[node]) for node in (1, *draft.draws[1]))
        q = draft.q
        w = min(Fraction(1), p[0][first] / q[0][first])
        children, own, rejected = allocated(w, p[1], q[1], [top], drawn)
        if w == 1 and sum(children.values()) == 0 and sum(own) == 0:
            continue
        outcome = UniVer().outcome(draft, p)
        assert {2: children[top], 3: children[drawn]} == {node: outcome.stop[node] for node in (2, 3)}
        assert outcome.stop[1] == sum(own)
        assert outcome.stop[0] == rejected
        if outcome.stop[1]:
            assert (outcome.next_token[1] * outcome.stop[1] == own).all()


def naive_hsd(draft: Draft, world: World, rng: Any) -> tuple[int, ...]:
    """Algorithm 1 of arXiv 2601.05724: ratios without cap; all tokens after the kept prefix are corrected in turn."""
    last, context = draft.tree.budget, draft.context(draft.tree.budget)

    def branch(prefix: tuple[int, ...]) -> tuple[Any, Any]:
        """The joint masses of target and draft of each next token."""
        p = q = Fraction(1)
        for i, token in enumerate(prefix):
            p, q = p * world.p(prefix[:i])[token], q * world.q(prefix[:i])[token]
        return p * world.p(prefix), q * world.q(prefix)

    def missing(prefix: tuple[int, ...]) -> Any:
        p, q = branch(prefix)
        return (p - q) * (p > q)

    kept = last
    p, q = branch(context[:-1])
    if not rng.random() * q[context[-1]] < p[context[-1]]:
        for kept in range(last - 1, -1, -1):
            p, q = branch(context[:kept])
            short, over = ((p - q) * (p > q)).sum(), ((q - p) * (q > p)).sum()
            if kept == 0 or rng.random() * max(short, over) < short:
                break
    text = context[:kept]
    while len(text) < last:
        text = (*text, draw(missing(text), rng))
    return text


def test_hsd_without_the_cap_keeps_the_target_if_it_corrects_every_token() -> None:
    """It is not a verifier of this package: the tokens after the first corrected one are not drawn from the target."""
    for case in range(30):
        world = random_world(np.random.default_rng(case), 2 + case % 2)
        policy = Levels((1,) * (1 + case % 3 if case % 2 == 0 else 2))
        emitted: dict[tuple[int, ...], Fraction] = {}
        for draft, chance in branches(lambda rng, policy=policy, world=world: policy.grow(world, rng)):
            for text, share in branches(lambda rng, draft=draft, world=world: naive_hsd(draft, world, rng)):
                emitted[text] = emitted.get(text, Fraction(0)) + chance * share
        for text, mass in emitted.items():
            target = Fraction(1)
            for i, token in enumerate(text):
                target *= world.p(text[:i])[token]
            assert mass == target, (case, text)


def test_the_optimum_that_spectr_gbv_states_is_below_the_optimum() -> None:
    """Its Theorem 5.3 for blocks of one token: sum p (1 - (1 - min(1, q / p))^K), a bound for drafts that are
    independent given the emitted token. Drafts that are simply independent allow more, and `OptimalTransport` gets it.
    """

    def stated(p: Any, q: Any, k: int) -> Fraction:
        return sum((x * (1 - (1 - min(Fraction(1), y / x)) ** k) for x, y in zip(p, q, strict=True) if x), Fraction(0))

    p, q = exact(1, 1), exact(9, 1)
    assert stated(p, q, 2) == Fraction(17, 25)
    assert OptimalTransport().acceptance(p, q, 2) == st.optimal_acceptance(p, q, 2) == Fraction(69, 100)
