"""Verifiers of whole drafts: what they emit over all drafts, in three number systems, and what they refuse."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import spectheory as st
from spectheory import Draft, DrawRule, Levels, Paths, Tree, World, branches, expected_block_efficiency
from spectheory.core.arrays import accept_ratio, residual
from spectheory.otlp import NSS, ArgMax, Naive
from spectheory.verify import (
    ALL,
    Block,
    Greedy,
    GreedyMultiPathBlock,
    Outcome,
    TopDown,
    Traversal,
    TreeMonteCarlo,
    Verifier,
    walk,
)
from tests.enumeration import CASES, exact
from tests.helpers import refuses
from tests.verify.random_drafts import (
    CHAINS,
    HUBS,
    OTHERS,
    PATHS,
    TOPS,
    TREES,
    WIDE,
    grown,
    joint,
    played,
    random_world,
)

SHAPES: dict[str, list[Any]] = {
    "chains": CHAINS,
    "paths": PATHS,
    "trees": [*TREES, *PATHS, *OTHERS, *WIDE, *HUBS, *TOPS],
}
POLICIES: list[tuple[Verifier, list[Any]]] = [
    (verifier, [policy for policy in SHAPES[verifier.takes] if policy.rule in verifier.rules])
    for verifier in (*ALL, TopDown(Naive()))
]


def check_that_the_target_is_kept(verifier: Verifier, world: World, policy: Any) -> None:
    """The texts emitted over all drafts, each extended by the target to one length, have the target's distribution."""
    emitted: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for draft, chance in branches(lambda rng: policy.grow(world, rng)):
        outcome = verifier.outcome(draft, world.target(draft))
        assert {type(x) for x in itertools.chain(outcome.stop, *outcome.next_token)} == {Fraction}
        assert sum(outcome.stop) == 1
        assert min(outcome.stop) >= 0
        for (node, token), mass in joint(outcome).items():
            emitted[(*draft.context(node), token)] += chance * mass
    texts: dict[tuple[int, ...], tuple[Any, Any]] = {(): (Fraction(0), Fraction(1))}
    for _ in range(max(map(len, emitted))):
        texts = {
            (*text, token): (ours * share + emitted.get((*text, token), 0), targets * share)
            for text, (ours, targets) in texts.items()
            for token, share in enumerate(world.p(text))
        }
    assert all(ours == targets for ours, targets in texts.values())


@pytest.mark.parametrize("count", CASES)
@pytest.mark.parametrize(("verifier", "policies"), POLICIES, ids=lambda x: str(x) if isinstance(x, Verifier) else "")
def test_the_target_is_kept(verifier: Verifier, policies: list[Any], count: int) -> None:
    for case in range(count):
        policy = policies[case % len(policies)]
        large = policy in (*WIDE, *HUBS[1:], *TREES[4:], *PATHS[3:]) or policy.rule is not DrawRule.IID
        size = 2 if (large and case % 10) or policy in (*WIDE, TREES[-1], HUBS[-1], *PATHS[4:7]) else 3
        check_that_the_target_is_kept(verifier, random_world(np.random.default_rng(case), size), policy)


@pytest.mark.parametrize(("verifier", "policies"), POLICIES, ids=lambda x: str(x) if isinstance(x, Verifier) else "")
def test_what_is_drawn_has_the_distribution_of_the_outcome(verifier: Verifier, policies: list[Any]) -> None:
    for case in range(max(60, len(policies))):
        draft, p = grown(policies[case % len(policies)], case, 2 + case % 2)
        found = played(lambda rng, draft=draft, p=p: verifier._sample(draft, p, rng))
        assert found == joint(verifier.outcome(draft, p))


def efficiency(verifier: Verifier, p: np.ndarray, q: np.ndarray, policy: Any) -> Any:
    return expected_block_efficiency(verifier, World.constant(p, q), policy).value


def test_published_and_checked_values() -> None:
    """p = (1/3, 2/3), q = (2/3, 1/3) is the example of arXiv 2403.10444; where p = q, more paths can accept less."""
    thirds, chains = (exact(1, 2), exact(2, 1)), [Levels((1,) * length) for length in (1, 2, 3)]
    for verifier in ALL:
        drawn = [replace(chain, rule=verifier.rules[0]) for chain in chains]
        assert [efficiency(verifier, *thirds, chain) - 1 for chain in drawn] == [
            Fraction(*x) for x in ((2, 3), (11, 9), (5, 3))
        ]
    naive = [efficiency(TopDown(Naive()), *thirds, chain) - 1 for chain in chains]
    assert naive == [Fraction(2, 3), Fraction(10, 9), Fraction(38, 27)]
    half = exact(1, 1)
    three = [efficiency(one, half, half, Paths(3, 1)) for one in (GreedyMultiPathBlock(), TopDown(NSS()))]
    assert [*three, efficiency(Block(), half, half, Levels((1,)))] == [Fraction(13, 8), Fraction(15, 8), 2]
    assert efficiency(Traversal(), exact(0, 1, 3), exact(1, 0, 1), Levels((2,))) == 1 + Fraction(5, 8)
    assert efficiency(Block(), exact(1, 1), exact(1, 5), chains[2]) == 1 + Fraction(19, 12)


def test_distributions_with_whole_numbers_stay_exact() -> None:
    """An int divided by an int would be a float."""
    cases = ((GreedyMultiPathBlock(), Paths(2, 2)), (Block(), CHAINS[0]), (Traversal(), Levels((2,))))
    for q in ([1, 0, 0], [0, Fraction(1, 2), Fraction(1, 2)]):
        mixed, fractions = np.array(q, dtype=object), exact(*(int(2 * x) for x in q))
        for verifier, policy in cases:
            found = efficiency(verifier, exact(1, 1, 1), mixed, policy)
            assert (type(found), found) == (Fraction, efficiency(verifier, exact(1, 1, 1), fractions, policy))


@pytest.mark.parametrize(("verifier", "policies"), POLICIES, ids=lambda x: str(x) if isinstance(x, Verifier) else "")
def test_three_number_systems_agree(verifier: Verifier, policies: list[Any]) -> None:
    """In 1/8ths, which floats hold: where p / q ties, it ties in all three."""

    def eighths(rng: np.random.Generator, size: int) -> np.ndarray:
        return exact(*rng.multinomial(8, [1 / size] * size).tolist())

    for seed, policy in enumerate(policies):
        draft, p = grown(policy, seed, 3, eighths)
        in_fractions = verifier.outcome(draft, p)
        for number in (to_float, to_torch):
            ours = verifier.outcome(replace(draft, q=[number(row) for row in draft.q]), [number(row) for row in p])
            assert all(type(row) is type(number(p[0])) for row in ours.next_token)
            for node, stop in enumerate(in_fractions.stop):
                assert float(ours.stop[node]) == pytest.approx(float(stop), abs=1e-12)
                if stop:
                    np.testing.assert_allclose(
                        ours.next_token[node], to_float(in_fractions.next_token[node]), atol=1e-12
                    )


def to_float(row: np.ndarray) -> np.ndarray:
    return row.astype(float)


def to_torch(row: np.ndarray) -> torch.Tensor:
    return torch.tensor(row.astype(float))


@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_rounding_leaves_a_distribution(number: type) -> None:
    """Where p and q differ by rounding alone, 1 - w and (w p - q)+ are of that size, and no chance may get negative."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(20), size=301).astype(number)
    p = (q * (1 + 5 * np.finfo(number).eps * rng.standard_normal(q.shape))).astype(number)
    tokens = [0, *(int(rng.choice(20, p=row / row.sum())) for row in q[:-1].astype(float))]
    draft = st.Draft.in_order(st.Tree.chain(300), tokens, q, DrawRule.IID)
    for verifier in ALL:
        outcome = verifier.outcome(replace(draft, rule=verifier.rules[0]), p)
        assert min(outcome.stop) >= 0
        assert sum(outcome.stop) == pytest.approx(1, abs=1e-4)
        assert outcome.block_efficiency == pytest.approx(301, rel=1e-2)
        outcome.sample(rng)


def test_drafts_that_do_not_fit_are_refused() -> None:
    half = [exact(1, 1)] * 4
    twice = st.Draft(st.Tree.chain(1), [0, 0], half[:2], ((1, 1), ()), DrawRule.IID)
    fork = st.Draft.in_order(st.Tree([-1, 0, 1, 1]), [0, 0, 0, 1], half, DrawRule.IID)
    top = st.Draft.in_order(st.Tree.chain(1), [0, 0], half[:2], DrawRule.TOP_K)
    for verifier in (Block(), TreeMonteCarlo()):
        refuses("one draw at each inner node, got 2 at node 0; draft with Levels", verifier.outcome, twice, half[:2])
        refuses("one draw at each inner node, got 2 at node 1; .* with Traversal", verifier.outcome, fork, half)
        refuses("draft.rule is TOP_K, .* is lossless only for IID, IID_APART", verifier.outcome, top, half[:2])
    refuses("lossless only for IID, NO_REPLACEMENT, IID_APART", Traversal().outcome, top, half[:2])
    with pytest.raises(
        ValueError, match=r"draft.rule is NO_REPLACEMENT, GreedyMultiPathBlock\(\) is lossless only for IID"
    ):
        GreedyMultiPathBlock().outcome(replace(top, rule=DrawRule.NO_REPLACEMENT), half[:2])


@pytest.mark.parametrize(
    ("parent", "draws", "message"),
    [
        ([-1, 0, 1], ((1, 1), (2,), ()), "node 1 was drawn 2 times and must have 2 draws below it, got 1"),
        ([-1, 0, 0, 1], ((1, 2), (3,), (), ()), "node 2 was drawn 1 times and must have 1 draws below it, got 0"),
    ],
)
def test_drafts_that_are_no_paths_are_refused(parent: list[int], draws: Any, message: str) -> None:
    tree = st.Tree(parent)
    distributions = [exact(1, 1)] * len(parent)
    with pytest.raises(ValueError, match=message + r".*; draft with Paths\(K, L, trunk\) under DrawRule.IID"):
        GreedyMultiPathBlock().outcome(st.Draft(tree, tree.rank, distributions, draws, DrawRule.IID), distributions)


def test_the_expectation_is_exact_or_has_its_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.constant(exact(1, 2, 3), exact(3, 2, 1))
    in_fractions = expected_block_efficiency(Traversal(), world, Levels((2, 1)))
    assert isinstance(in_fractions.value, Fraction)
    assert (in_fractions.standard_error, in_fractions.is_exact) == (0, True)
    assert in_fractions.drafts == sum(1 for _ in branches(lambda rng: Levels((2, 1)).grow(world, rng)))
    floats = World(lambda context: to_float(world.p(context)), lambda context: to_torch(world.q(context)).numpy())
    rounded = expected_block_efficiency(Traversal(), floats, Levels((2, 1)))
    assert rounded.value == pytest.approx(float(in_fractions.value), abs=1e-12)
    assert rounded.is_exact
    for source in (world, floats):
        drawn = expected_block_efficiency(
            Traversal(), source, Levels((2, 1)), samples=300, rng=np.random.default_rng(0)
        )
        assert (drawn.drafts, drawn.is_exact) == (300, False)
        assert 0 < drawn.standard_error < 0.05
        # normal, 5 standard errors: level 6e-7
        assert abs(drawn.value - float(in_fractions.value)) < 5 * drawn.standard_error
    monkeypatch.setattr("spectheory.yields.expected.MOST_DRAFTS", 7)
    assert efficiency(Block(), exact(1, 2), exact(2, 1), Levels((1, 1))) == Fraction(20, 9)
    with pytest.raises(ValueError, match=r"grows more than 7 drafts .* samples=1000, rng=numpy.random.default_rng"):
        efficiency(Block(), exact(1, 2), exact(2, 1), Levels((1, 1, 1)))


def test_ties_among_many_tokens_have_one_order() -> None:
    """The distribution of the best path sums to 1 only if choice and distribution have the same order; sorts of 40 are
    not stable.
    """
    rng = np.random.default_rng(0)
    for _ in range(2):
        q = rng.dirichlet(np.ones(40))
        p = q * rng.choice([0.5, 1.0, 2.0], 40)
        found = [0.0 * p] * 2
        for first in range(40):
            for second in range(40):
                tokens = list(dict.fromkeys([first, second]))
                draws = (tuple(1 + tokens.index(token) for token in (first, second)), *[()] * len(tokens))
                draft = Draft(
                    Tree([-1] + [0] * len(tokens)), [0, *tokens], [q] * (1 + len(tokens)), draws, DrawRule.IID
                )
                outcome = GreedyMultiPathBlock()._outcome(draft, [p / p.sum()] * (1 + len(tokens)))
                distribution = outcome.stop[0] * outcome.next_token[0]
                for child in set(draws[0]):
                    distribution[tokens[child - 1]] += outcome.stop[child]
                found[0] = found[0] + q[first] * q[second] * distribution
        np.testing.assert_allclose(found[0], p / p.sum(), atol=1e-12)


def test_the_guards() -> None:
    half = np.array([Fraction(1, 2), Fraction(1, 2), Fraction(0)])
    assert (residual(half, half) == half).all()
    one, none = Fraction(1), Fraction(0)
    ratios = [accept_ratio(*pq) for pq in ((none, none), (one, none), (none, one), (one / 3, one / 2), (one, one / 2))]
    assert ratios == [0, 1, 0, Fraction(2, 3), 1]
    tiny = torch.tensor([0.5, 1e-40], dtype=torch.float32)
    assert accept_ratio(tiny[0], tiny[1]) == 1


def test_sampling_an_outcome_follows_its_distribution() -> None:
    p = np.array([[0.2, 0.8], [0.5, 0.5]])
    q = np.array([[0.6, 0.4], [0.5, 0.5]])
    draft = st.Draft.in_order(st.Tree.chain(1), [0, 0], q, st.DrawRule.IID)
    outcome = TopDown(Naive()).outcome(draft, p)
    assert outcome.block_efficiency == pytest.approx(1 + 0.2 / 0.6)
    rng = np.random.default_rng(0)
    samples = [outcome.sample(rng) for _ in range(4000)]
    rounded = [row.astype(np.float32) for row in outcome.next_token]
    Outcome(outcome.tree, [np.float32(s) for s in outcome.stop], rounded).sample(rng)
    # binomial, 5 standard errors: level 6e-7
    share = np.mean([node == 1 for node, _ in samples])
    assert abs(share - 1 / 3) < 5 * np.sqrt(2 / 9 / 4000)
    assert {token for node, token in samples if node == 0} == {1}


def test_greedy_keeps_the_argmax_path() -> None:
    p = np.array([[0.1, 0.7, 0.2], [0.6, 0.2, 0.2], [0.3, 0.3, 0.4]])
    draft = st.Draft.in_order(st.Tree([-1, 0, 0]), [0, 0, 1], p, st.DrawRule.TOP_K)
    assert ArgMax()._distribution(p[0], p[0], [0]).tolist() == [0, 1, 0]
    outcome = Greedy().outcome(draft, p)
    assert [float(s) for s in outcome.stop] == [0, 0, 1]
    assert outcome.next_token[2].tolist() == [0, 0, 1]
    assert {Greedy().sample(draft, p, np.random.default_rng(seed)) for seed in range(9)} == {(2, 2)}
    assert walk(draft.draws, draft.tokens, lambda node: int(p[node].argmax())) == ([2], 2)
