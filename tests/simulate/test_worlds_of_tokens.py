"""Worlds with tokens: Markov targets and drafts, and recorded texts."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import spectheory as st
from simulate.worlds import MarkovWorld
from simulate.worlds.markov import stationary
from spectheory import DrawRule, Levels, Paths, Tree, Verifier
from spectheory.otlp import NSS, OptimalTransport, solvers
from spectheory.replay import Replays, TargetText
from spectheory.verify import Block, Greedy, GreedyMultiPathBlock, TopDown, Traversal, TreeMonteCarlo
from tests.enumeration import random_distribution
from tests.refusals import refuses
from tests.simulate.test_worlds import LEVEL, z_of_ratio

IID, APART, NO_REPLACEMENT, TOP_K = DrawRule.IID, DrawRule.IID_APART, DrawRule.NO_REPLACEMENT, DrawRule.TOP_K
UNEVEN = Tree([-1, 0, 0, 1])
CASES: list[tuple[Any, Verifier, DrawRule | None]] = [
    (Tree.chain(2), Block(), IID),
    (Tree.chain(2), TreeMonteCarlo(), IID),
    (Tree.chain(2), Greedy(), TOP_K),
    (UNEVEN, Traversal(), NO_REPLACEMENT),
    (UNEVEN, TopDown(NSS()), TOP_K),
    (Levels((2, 1), APART), Traversal(), None),
    (Paths(2, 1), GreedyMultiPathBlock(), None),
    *((Levels((2,), solver.rules[0]), TopDown(solver), None) for solver in solvers()),
    (st.OptTree(3), TopDown(NSS()), None),
    (st.Eagle2(3, 2, 2), Greedy(), None),
    (st.Salf(3), TopDown(OptimalTransport(TOP_K)), None),
    (st.SpecExec(3, 2), TopDown(NSS()), None),
]


def exact_world(seed: int, size: int = 3) -> MarkovWorld:
    """Fractions, zeros among them; every token can follow every token of the target in some steps."""
    rng = np.random.default_rng(seed)
    p, q = (np.array([random_distribution(rng, size) for _ in range(size)]) for _ in "pq")
    return MarkovWorld((p + np.full((size, size), Fraction(1, size))) / 2, q)


def float_world(seed: int, size: int = 5) -> MarkovWorld:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(size, 0.6), size)
    return MarkovWorld(p, 0.5 * p + 0.5 * rng.dirichlet(np.full(size, 0.6), size))


@pytest.mark.parametrize(("shape", "verifier", "rule"), CASES, ids=str)
def test_a_played_cycle_has_the_distribution_of_the_enumerated_drafts(
    shape: Any, verifier: Verifier, rule: DrawRule | None
) -> None:
    """Every branch of drafting and verifying, in Fractions, by equality; and the first token is the target's."""
    world = exact_world(seed=5)
    joint = world.cycle_outcomes(shape, verifier, rule)
    for last in range(3):
        found: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
        for (kept, token, _), chance in st.branches(
            lambda rng, last=last: world._cycle(last, shape, verifier, rule, rng, rng)
        ):
            found[kept, token] += chance
        computed = {place: mass for place, mass in np.ndenumerate(joint[last]) if mass}
        assert {place: mass for place, mass in found.items() if mass} == computed
        assert sum(computed.values()) == 1


@pytest.mark.parametrize(("shape", "verifier"), [(Levels((2, 1)), Traversal()), (Levels((1, 1)), Block())], ids=str)
def test_after_each_token_the_block_efficiency_is_that_of_all_drafts(shape: Levels, verifier: Verifier) -> None:
    world = exact_world(seed=6)
    joint = world.cycle_outcomes(shape, verifier)
    for last in range(3):
        found = st.expected_block_efficiency(verifier, st.World.markov(world.p, world.q, last), shape)
        assert found.value == joint[last].sum(1) @ np.arange(1, joint.shape[1] + 1)


@pytest.mark.parametrize(("shape", "verifier", "rule"), CASES, ids=str)
def test_a_long_run_is_the_limit_of_its_first_cycles(shape: Any, verifier: Verifier, rule: DrawRule | None) -> None:
    """Tau of n cycles has the limit tau + c / n, so that twice n halves the distance."""
    world = MarkovWorld(*(rows.astype(float) for rows in (exact_world(7).p, exact_world(7).q)))
    tau = world.block_efficiency(shape, verifier, rule)
    near, far = (n * (world.tau_of_first(n, shape, verifier, rule) - tau) for n in (400, 800))
    assert near == pytest.approx(far, abs=1e-8)
    emitted = world.emitted_tokens(shape, verifier, rule)
    assert emitted @ np.arange(1, len(emitted) + 1) == pytest.approx(tau)


def test_replay_of_a_long_text_agrees_with_the_long_run() -> None:
    """The replay theorem against the chain of cycle starts: no code is shared. 60 texts of 200 tokens, z-test."""
    world, rng = float_world(1), np.random.default_rng(2)
    texts = []
    for _ in range(60):
        tokens = [int(rng.choice(5, p=world.start))]
        while len(tokens) < 200:
            tokens.append(int(rng.choice(5, p=world.p[tokens[-1]])))
        before = np.array(tokens[:-1])
        texts.append(TargetText(np.array(tokens[1:]), world.p[before], world.q[before]))
    replays = Replays(texts, first=0)
    for verifier in (Block(), TopDown(NSS())):
        found = replays.replay(Tree.chain(3), verifier, IID)
        excess = found.emitted - world.block_efficiency(Tree.chain(3), verifier, IID) * found.cycles
        assert abs(excess.mean() / (excess.std(ddof=1) / 60**0.5)) < norm.isf(LEVEL / 2)


@pytest.mark.parametrize(
    ("shape", "verifier", "rule"),
    [(Tree.chain(3), Block(), IID), (UNEVEN, Traversal(), NO_REPLACEMENT), (st.OptTree(4), TopDown(NSS()), None)],
    ids=str,
)
def test_many_requests_have_the_expected_tokens(shape: Any, verifier: Verifier, rule: DrawRule | None) -> None:
    """100 requests of 8 cycles against the first 8 cycles computed exactly, z-test."""
    world = float_world(3)
    walks = world.walks(shape, verifier, rule, requests=100, cycles=8, rng=np.random.default_rng(4))
    tally = walks.tally(st.Provenance("test"))
    assert abs(z_of_ratio(tally, world.tau_of_first(8, shape, verifier, rule))) < norm.isf(LEVEL / 2)
    again = world.walks(shape, verifier, rule, requests=100, cycles=8, rng=np.random.default_rng(4))
    assert (again.accepted == walks.accepted).all()


@pytest.mark.parametrize("exact", [True, False])
def test_stationary_distributions(exact: bool) -> None:
    """Transient states have no mass, periodic chains have one too, and two closed classes are refused."""
    half, one, zero = (Fraction(x) for x in ("1/2", "1", "0"))
    steps = np.array([[half, half, zero], [zero, zero, one], [zero, one, zero]])
    steps = steps if exact else steps.astype(float)
    assert stationary(steps, "steps").tolist() == [0, half, half]
    two = np.array([[one, zero, zero], [zero, one, zero], [half, half, zero]])
    refuses("steps must have one closed class of states, got 2", stationary, two, "steps")
    p = exact_world(9).p
    found = stationary(p if exact else p.astype(float), "p")
    assert np.allclose((found @ p - found).astype(float), 0, atol=1e-15)


def test_what_a_world_of_tokens_cannot_play_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world, rng = float_world(0), np.random.default_rng(0)
    for shape, verifier, rule, message in [
        (Tree.chain(2), None, IID, "verifier must be a Verifier"),
        (Tree.chain(2), Block(), None, "rule must say how the children"),
        (Tree.chain(2), Block(), TOP_K, r"drafted by TOP_K, Block\(\) is lossless only for IID"),
        (st.OptTree(3), Traversal(), None, r"drafted by TOP_K, Traversal\(\) is lossless only for IID"),
        (st.OptTree(3), TopDown(NSS()), IID, "rule must be left out for a policy, or be the rule of the policy, TOP_K"),
        (3, Block(), IID, "shape must be a Tree, a DrawPolicy such as Levels, or a policy"),
        (UNEVEN, Block(), IID, "verifies chains"),
    ]:
        refuses(message, world.walks, shape, verifier, rule, requests=1, cycles=1, rng=rng)
    monkeypatch.setattr("simulate.worlds.markov.MOST_DRAFTS", 24)
    refuses("has more than 24 drafts", world.block_efficiency, Tree.chain(2), Block(), IID)
    refuses("start must have one entry", MarkovWorld, world.p, world.q, np.ones(1))
    refuses("p must have one closed class of states, got 5", MarkovWorld, np.eye(5), world.q)
    refuses(r"p\[1\] must be a distribution", MarkovWorld, np.array([[0.5, 0.5], [0.5, 0.6]]), np.eye(2))
