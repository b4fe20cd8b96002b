"""Verifiers of whole drafts: what they emit over all drafts, and each against a procedure written from its paper."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import spectheory as st
from spectheory import Draft, DrawRule, Levels, Paths, Tree, World, branches, expected_block_efficiency
from spectheory.chance import draw
from spectheory.otlp import Naive
from spectheory.verify import Block, GreedyMultiPathBlock, Outcome, TopDown, Traversal, TreeMonteCarlo, Verifier
from tests.enumeration import random_law

CHAINS = [Levels((1,) * length, rule) for length in (1, 2, 3) for rule in Block().rules]
TREES = [Levels(counts) for counts in [(1, 1), (2,), (3,), (1, 2), (2, 1), (3, 1), (1, 1, 2), (2, 2)]]
PATHS = [Paths(*sizes) for sizes in [(2, 1), (3, 1), (2, 2), (2, 1, 1), (3, 2), (2, 2, 1), (2, 3), (1, 2), (2, 1, 2)]]
OTHERS = [
    replace(policy, rule=rule)
    for rule in (DrawRule.IID_APART, DrawRule.NO_REPLACEMENT)
    for policy in [Levels((2,)), Levels((3,)), Levels((1, 2)), Levels((2, 1)), Levels((3, 1)), Levels((1, 1, 2))]
]
WIDE = [Levels((2, 2), DrawRule.NO_REPLACEMENT), Levels((2, 2), DrawRule.IID_APART), Paths(2, 2, 1, DrawRule.IID_APART)]
HUBS = [Levels(counts, DrawRule.HUB) for counts in [(2,), (2, 1), (1, 2), (2, 2)]]
POLICIES: list[tuple[Verifier, list[Any]]] = [
    (Block(), CHAINS),
    (TreeMonteCarlo(), CHAINS),
    (Traversal(), [*TREES, *PATHS, *OTHERS, *WIDE]),
    (GreedyMultiPathBlock(), PATHS),
    (TopDown(Naive()), [*TREES, *PATHS, *OTHERS, *WIDE, *HUBS]),
]


def law(*weights: int) -> np.ndarray:
    return np.array([Fraction(x, sum(weights)) for x in weights], dtype=object)


def random_world(rng: np.random.Generator, size: int, depth: int, new: Callable = random_law) -> World:
    """Laws of their own for each context: p = q, disjoint supports and one-hot laws stand beside others with zeros."""

    def pair() -> tuple[np.ndarray, np.ndarray]:
        p, q, one_hot = new(rng, size), new(rng, size), law(*(rng.permutation(size) == 0).astype(int).tolist())
        outside = p * (one_hot == 0)
        apart = outside / outside.sum() if outside.sum() else p
        kinds = [(p, p), (one_hot, q), (p, one_hot), (apart, one_hot), *[(p, q)] * 5]
        return kinds[int(rng.integers(len(kinds)))]

    contexts = itertools.chain(*(itertools.product(range(size), repeat=length) for length in range(depth + 1)))
    return World.table({context: pair() for context in contexts})


def grown(policy: Any, seed: int, size: int, new: Callable = random_law) -> tuple[st.Draft, list[np.ndarray]]:
    """A draft and the target's laws at its nodes, in a random world."""
    rng = np.random.default_rng(seed)
    world = random_world(rng, size, 4, new)
    draft = policy.grow(world, rng)
    return draft, world.target(draft)


def joint(outcome: Outcome) -> dict[tuple[int, int], Fraction]:
    """The law of (last accepted node, next token), zeros left out."""
    return {
        (node, token): stop * share
        for node, stop in enumerate(outcome.stop)
        for token, share in enumerate(outcome.next_token[node])
        if stop * share
    }


def check_that_the_target_is_kept(verifier: Verifier, world: World, policy: Any) -> None:
    """The texts emitted over all drafts, each extended by the target to one length, have the target's law."""
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


@pytest.mark.parametrize(("verifier", "policies"), POLICIES, ids=lambda x: str(x) if isinstance(x, Verifier) else "")
def test_the_target_is_kept(verifier: Verifier, policies: list[Any]) -> None:
    for case in range(512):
        policy = policies[case % len(policies)]
        large = policy in (*WIDE, *HUBS[1:], *TREES[4:], *PATHS[3:]) or policy.rule is not DrawRule.IID
        size = 2 if (large and case % 10) or policy in (*WIDE, TREES[-1], HUBS[-1], *PATHS[4:7]) else 3
        check_that_the_target_is_kept(verifier, random_world(np.random.default_rng(case), size, 3), policy)


def played(program: Callable[[Any], tuple[int, int]]) -> dict[tuple[int, int], Fraction]:
    """The law of what a sampling procedure returns, by playing all its branches."""
    found: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for result, chance in branches(program):
        found[result] += chance
    return {result: mass for result, mass in found.items() if mass}


@pytest.mark.parametrize(("verifier", "policies"), POLICIES, ids=lambda x: str(x) if isinstance(x, Verifier) else "")
def test_what_is_drawn_has_the_law_of_the_outcome(verifier: Verifier, policies: list[Any]) -> None:
    for case in range(200):
        draft, p = grown(policies[case % len(policies)], case, 2 + case % 2)
        found = played(lambda rng, draft=draft, p=p: verifier.drawn(draft, p, rng))
        assert found == joint(verifier.outcome(draft, p))


def part(a: Any, p: Any, b: Any, q: Any) -> list[Any]:
    """(a p - b q)+."""
    return [max(a * x - b * y, 0) for x, y in zip(p, q, strict=True)]


def weights_of(x: list[int], p: Any, q: Any) -> list[Any]:
    w: list[Any] = [Fraction(1)]
    for i, token in enumerate(x):
        w.append(min(Fraction(1), w[-1] * p[i][token] / q[i][token]))
    return w


def block(x: list[int], p: Any, q: Any, rng: Any) -> tuple[int, int]:
    """arXiv 2403.10444, Algorithm 2: (accepted tokens, next token)."""
    w, tau = weights_of(x, p, q), 0
    for i in range(1, len(x) + 1):
        lacking = sum(part(w[i], p[i], 1, q[i])) if i < len(x) else 0
        h = w[i] if i == len(x) else lacking / (lacking + 1 - w[i]) if lacking + 1 - w[i] else Fraction(1, 7)
        if rng.random() < h:
            tau = i
    return tau, draw(p[tau] if tau == len(x) else part(w[tau], p[tau], 1, q[tau]), rng)


def tree_monte_carlo(x: list[int], p: Any, q: Any, rng: Any) -> tuple[int, int]:
    """Hu and Huang: carry the exits token by token, then draw one of them or the whole path."""
    exits: dict[tuple[int, int], Any] = {}
    a: Any = Fraction(1)
    for i, token in enumerate(x):
        g = part(1, q[i], a, p[i])
        t = g[token] / (sum(g) * q[i][token]) if sum(g) else Fraction(1)
        exits = {end: mass * t for end, mass in exits.items()}
        exits |= {(i, y): t * mass for y, mass in enumerate(part(a, p[i], 1, q[i]))}
        a = min(Fraction(1), a * p[i][token] / q[i][token])
    ends = [*exits, (len(x), -1)]
    n, y = ends[rng.choice(len(ends), p=[*exits.values(), a])]
    return (n, y) if y >= 0 else (n, draw(p[n], rng))


def traversal(draft: st.Draft, p: Any, rng: Any, node: int = 0, a: Any = 1) -> tuple[int, int] | None:
    """arXiv 2505.12398, Section 3, by recursion: (last accepted node, next token), None where all is rejected."""
    here_p, here_q = list(p[node]), list(draft.q[node])
    for child in dict.fromkeys(draft.draws[node]):
        x = int(draft.tokens[child])
        found = traversal(draft, p, rng, child, min(Fraction(1), a * here_p[x] / here_q[x]))
        if found is not None:
            return found
        rest = part(a, here_p, 1, here_q)
        a = sum(rest) / (sum(rest) + 1 - a)
        here_p = [mass / sum(rest) for mass in rest] if sum(rest) else here_p
        left = 1 - here_q[x] if draft.rule is not DrawRule.IID_APART else 1
        here_q = [(0 if y == x and left < 1 else mass) / (left or 1) for y, mass in enumerate(here_q)]
    return (node, draw(here_p, rng)) if node == 0 or rng.random() < a else None


@pytest.mark.parametrize("seed", range(34))
def test_a_procedure_on_a_chain_has_the_law_and_the_three_agree_draft_by_draft(seed: int) -> None:
    for number, policy in enumerate(CHAINS):
        draft, p = grown(policy, 100 * seed + number, 2 + seed % 2)
        x = [int(token) for token in draft.tokens[1:]]
        law = joint(Block().outcome(draft, p))
        assert law == played(lambda rng, x=x, p=p, q=draft.q: block(x, p, q, rng))
        assert law == joint(TreeMonteCarlo().outcome(draft, p))
        assert law == played(lambda rng, x=x, p=p, q=draft.q: tree_monte_carlo(x, p, q, rng))
        assert law == joint(Traversal().outcome(replace(draft, rule=DrawRule.IID), p))


@pytest.mark.parametrize("seed", range(16))
def test_a_procedure_on_a_tree_has_the_law_of_traversal(seed: int) -> None:
    for number, policy in enumerate([*TREES, *PATHS, *OTHERS, *WIDE]):
        draft, p = grown(policy, 100 * seed + number, 2 + seed % 2)
        assert joint(Traversal().outcome(draft, p)) == played(lambda rng, d=draft, p=p: traversal(d, p, rng))  # type: ignore


def best_path(world: World, policy: Paths, draft: st.Draft) -> tuple[list[int], list[np.ndarray]]:
    """The largest path of a draft with its q~, from the law of the largest of K whole paths behind the trunk."""
    trunk: tuple[int, ...] = draft.context(int(draft.tree.depth.tolist().index(policy.trunk)))
    size, law = len(draft.q[0]), {}
    seen: Any = Fraction(0)

    def key(path: tuple[int, ...]) -> list[Any]:
        cuts = [(world.p(path[:i])[path[i]], world.q(path[:i])[path[i]], path[i]) for i in range(len(path))]
        return [(p / q, token) if q else (-1, token) for p, q, token in cuts]

    every = [(*trunk, *tail) for tail in itertools.product(range(size), repeat=policy.length)]
    for path in sorted(every, key=key):
        chance = math.prod(world.q(path[:i])[path[i]] for i in range(policy.trunk, len(path)))
        law[path], seen = (seen + chance) ** policy.paths - seen**policy.paths, seen + chance
    drafted = [draft.context(node) for node in range(draft.tree.budget + 1)]
    best = max((path for path in drafted if len(path) == policy.trunk + policy.length), key=key)
    q = [world.q(best[:i]) for i in range(policy.trunk)]
    for i in range(policy.trunk, len(best)):
        masses = [sum(law[path] for path in every if path[: i + 1] == (*best[:i], y)) for y in range(size)]
        q.append(np.array([mass / sum(masses) for mass in masses], dtype=object))
    return list(best), q


@pytest.mark.parametrize("seed", range(56))
def test_greedy_multi_path_is_block_on_the_largest_path_by_the_law_of_whole_paths(seed: int) -> None:
    for number, policy in enumerate(PATHS):
        rng = np.random.default_rng(100 * seed + number)
        world = random_world(rng, 2 + seed % 2, 3)
        draft = policy.grow(world, rng)
        x, q = best_path(world, policy, draft)
        p = [world.p(tuple(x[:i])) for i in range(len(x) + 1)]
        law = played(lambda rng, x=x, p=p, q=q: block(x, p, q, rng))
        ours = joint(GreedyMultiPathBlock().outcome(draft, world.target(draft)))
        assert {(draft.context(node), token): mass for (node, token), mass in ours.items()} == {
            (tuple(x[:n]), token): mass for (n, token), mass in law.items()
        }


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("rule", [DrawRule.NO_REPLACEMENT, DrawRule.IID])
def test_traversal_of_one_level_is_recursive_rejection_sampling(k: int, rule: DrawRule) -> None:
    def recursive(p: Any, q: Any, drafts: list[int], rng: Any) -> tuple[int, int]:
        p, q = list(p), list(q)
        for place, x in enumerate(drafts):
            if rng.random() * q[x] < p[x]:
                return 1 + place, x
            rest = part(1, p, 1, q)
            p = [mass / sum(rest) for mass in rest]
            q[x] *= 0
            q = [mass / (sum(q) or 1) for mass in q]
        return 0, draw(p, rng)

    for seed in range(20):
        draft, p = grown(Levels((k,), rule), seed, 3)
        outcome, distinct = Traversal().outcome(draft, p), list(dict.fromkeys(draft.drafted(0)))
        law = played(lambda rng, p=p[0], q=draft.q[0], x=distinct: recursive(p, q, x, rng))
        stays = {(0, token): outcome.stop[0] * share for token, share in enumerate(outcome.next_token[0])}
        goes = {(node, int(draft.tokens[node])): stop for node, stop in enumerate(outcome.stop) if node}
        assert law == {end: mass for end, mass in (stays | goes).items() if mass}


def efficiency(verifier: Verifier, p: np.ndarray, q: np.ndarray, policy: Any) -> Any:
    return expected_block_efficiency(verifier, World.constant(p, q), policy).value


def test_published_and_checked_values() -> None:
    """p = (1/3, 2/3), q = (2/3, 1/3) is the example of arXiv 2403.10444; where p = q more paths can serve worse."""
    thirds, chains = (law(1, 2), law(2, 1)), [Levels((1,) * length) for length in (1, 2, 3)]
    for verifier in (Block(), TreeMonteCarlo(), Traversal(), GreedyMultiPathBlock()):
        assert [efficiency(verifier, *thirds, chain) - 1 for chain in chains] == [
            Fraction(*x) for x in ((2, 3), (11, 9), (5, 3))
        ]
    naive = [efficiency(TopDown(Naive()), *thirds, chain) - 1 for chain in chains]
    assert naive == [Fraction(2, 3), Fraction(10, 9), Fraction(38, 27)]
    half = law(1, 1)
    assert efficiency(GreedyMultiPathBlock(), half, half, Paths(2, 1)) == 1 + Fraction(3, 4)
    assert efficiency(Block(), half, half, Levels((1,))) == 1 + 1
    assert efficiency(Traversal(), law(0, 1, 3), law(1, 0, 1), Levels((2,))) == 1 + Fraction(5, 8)
    assert efficiency(Block(), law(1, 1), law(1, 5), chains[2]) == 1 + Fraction(19, 12)


def test_block_accepts_the_sum_of_its_weights() -> None:
    for seed in range(40):
        world = random_world(np.random.default_rng(seed), 2 + seed % 2, 3)
        total = Fraction(0)
        for draft, chance in branches(lambda rng, world=world: Levels((1, 1, 1)).grow(world, rng)):
            x = [int(token) for token in draft.tokens[1:]]
            total += chance * sum(weights_of(x, world.target(draft), draft.q)[1:])
        efficiency = expected_block_efficiency(Block(), world, Levels((1, 1, 1))).value
        assert efficiency == 1 + total >= expected_block_efficiency(TopDown(Naive()), world, Levels((1, 1, 1))).value


@pytest.mark.parametrize(("verifier", "policies"), POLICIES, ids=lambda x: str(x) if isinstance(x, Verifier) else "")
def test_three_number_systems_agree(verifier: Verifier, policies: list[Any]) -> None:
    """In 1/8ths, which floats hold: where p / q ties, it ties in all three."""

    def eighths(rng: np.random.Generator, size: int) -> np.ndarray:
        return law(*rng.multinomial(8, [1 / size] * size).tolist())

    for seed, policy in enumerate(policies * 3):
        draft, p = grown(policy, seed, 3, eighths)
        exact = verifier.outcome(draft, p)
        for number in (to_float, to_torch):
            ours = verifier.outcome(replace(draft, q=[number(row) for row in draft.q]), [number(row) for row in p])
            assert all(type(row) is type(number(p[0])) for row in ours.next_token)
            for node, stop in enumerate(exact.stop):
                assert float(ours.stop[node]) == pytest.approx(float(stop), abs=1e-12)
                if stop:
                    np.testing.assert_allclose(ours.next_token[node], to_float(exact.next_token[node]), atol=1e-12)


def to_float(row: np.ndarray) -> np.ndarray:
    return row.astype(float)


def to_torch(row: np.ndarray) -> torch.Tensor:
    return torch.tensor(row.astype(float))


@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_rounding_leaves_a_law(number: type) -> None:
    """Where p and q differ by rounding alone, 1 - w and (w p - q)+ are of that size, and no chance may get negative."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(20), size=301).astype(number)
    p = (q * (1 + 5 * np.finfo(number).eps * rng.standard_normal(q.shape))).astype(number)
    tokens = [0, *(int(rng.choice(20, p=row / row.sum())) for row in q[:-1].astype(float))]
    draft = st.Draft.in_order(st.Tree.chain(300), tokens, q, DrawRule.IID)
    for verifier in (Block(), TreeMonteCarlo(), Traversal(), GreedyMultiPathBlock()):
        outcome = verifier.outcome(draft, p)
        assert min(outcome.stop) >= 0
        assert sum(outcome.stop) == pytest.approx(1, abs=1e-4)
        assert outcome.block_efficiency == pytest.approx(301, rel=1e-2)
        outcome.sample(rng)


def test_drafts_that_do_not_fit_are_refused() -> None:
    half = [law(1, 1)] * 4
    twice = st.Draft(st.Tree.chain(1), [0, 0], half[:2], ((1, 1), ()), DrawRule.IID)
    fork = st.Draft.in_order(st.Tree([-1, 0, 1, 1]), [0, 0, 0, 1], half, DrawRule.IID)
    top = st.Draft.in_order(st.Tree.chain(1), [0, 0], half[:2], DrawRule.TOP_K)
    for verifier in (Block(), TreeMonteCarlo()):
        with pytest.raises(ValueError, match="one draw at each inner node, got 2 at node 0; draft with Levels"):
            verifier.outcome(twice, half[:2])
        with pytest.raises(ValueError, match="one draw at each inner node, got 2 at node 1; .* with Traversal"):
            verifier.outcome(fork, half)
        with pytest.raises(ValueError, match="draft.rule is TOP_K, .* is lossless for IID, IID_APART"):
            verifier.outcome(top, half[:2])
    with pytest.raises(ValueError, match="lossless for IID, NO_REPLACEMENT, IID_APART"):
        Traversal().outcome(top, half[:2])
    with pytest.raises(ValueError, match=r"draft.rule is NO_REPLACEMENT, GreedyMultiPathBlock\(\) is lossless for IID"):
        GreedyMultiPathBlock().outcome(replace(top, rule=DrawRule.NO_REPLACEMENT), half[:2])


@pytest.mark.parametrize(
    ("parent", "draws", "message"),
    [
        ([-1, 0, 1], ((1, 1), (2,), ()), "2 draws hit node 1, which must have 2 draws below it, got 1"),
        ([-1, 0, 0, 1], ((1, 2), (3,), (), ()), "1 draws hit node 2, which must have 1 draws below it, got 0"),
        ([-1, 0, 0, 1, 1, 2], ((1, 2), (3, 4), (5,), (), (), ()), "node 1, which must have 1 draws below it, got 2"),
    ],
)
def test_drafts_that_are_no_paths_are_refused(parent: list[int], draws: Any, message: str) -> None:
    tree = st.Tree(parent)
    laws = [law(1, 1)] * len(parent)
    with pytest.raises(ValueError, match=message + r".*; draft with Paths\(K, L, trunk\) under DrawRule.IID"):
        GreedyMultiPathBlock().outcome(st.Draft(tree, tree.rank, laws, draws, DrawRule.IID), laws)


def test_the_expectation_is_exact_or_has_its_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.constant(law(1, 2, 3), law(3, 2, 1))
    exact = expected_block_efficiency(Traversal(), world, Levels((2, 1)))
    assert isinstance(exact.value, Fraction)
    assert (exact.standard_error, exact.is_exact) == (0, True)
    assert exact.drafts == sum(1 for _ in branches(lambda rng: Levels((2, 1)).grow(world, rng)))
    floats = World(lambda context: to_float(world.p(context)), lambda context: to_torch(world.q(context)).numpy())
    rounded = expected_block_efficiency(Traversal(), floats, Levels((2, 1)))
    assert rounded.value == pytest.approx(float(exact.value), abs=1e-12)
    assert rounded.is_exact
    for source in (world, floats):
        drawn = expected_block_efficiency(
            Traversal(), source, Levels((2, 1)), samples=1000, rng=np.random.default_rng(0)
        )
        assert (drawn.drafts, drawn.is_exact) == (1000, False)
        assert 0 < drawn.standard_error < 0.05
        # normal, 5 standard errors: level 6e-7
        assert abs(drawn.value - float(exact.value)) < 5 * drawn.standard_error
    monkeypatch.setattr("spectheory.expected.MOST_DRAFTS", 7)
    assert efficiency(Block(), law(1, 2), law(2, 1), Levels((1, 1))) == Fraction(20, 9)
    with pytest.raises(ValueError, match=r"grows more than 7 drafts .* samples=1000, rng=numpy.random.default_rng"):
        efficiency(Block(), law(1, 2), law(2, 1), Levels((1, 1, 1)))


def test_the_expectation_refuses_what_it_cannot_use() -> None:
    world = World.constant(law(1, 1), law(1, 1))
    with pytest.raises(ValueError, match="samples and rng go together"):
        expected_block_efficiency(Block(), world, Levels((1,)), samples=10)
    with pytest.raises(ValueError, match="samples must be at least 2 drafts, for a standard error, got 1"):
        expected_block_efficiency(Block(), world, Levels((1,)), samples=1, rng=np.random.default_rng(0))


def test_sampling_a_traversal_follows_its_law_and_stops_early() -> None:
    """8,000 samples, each frequency within 5 standard errors of the outcome's: level 6e-7 for each node and token."""
    q = np.array([0.5, 0.3, 0.2])
    tree_p = [np.array(law) for law in ([0.2, 0.5, 0.3], [0.6, 0.2, 0.2], [0.1, 0.1, 0.8])]
    draft = Draft.in_order(Tree([-1, 0, 0]), [0, 0, 2], [q] * 3, DrawRule.NO_REPLACEMENT)
    outcome, rng = Traversal().outcome(draft, tree_p), np.random.default_rng(3)
    found = [Traversal().sample(draft, tree_p, rng) for _ in range(8000)]
    for node in range(3):
        for token in range(3):
            chance = float(outcome.stop[node] * outcome.next_token[node][token])
            share = sum(pair == (node, token) for pair in found) / len(found)
            assert abs(share - chance) <= 5 * (chance * (1 - chance) / len(found)) ** 0.5


def test_ties_among_many_tokens_have_one_order() -> None:
    """The law of the best path sums to 1 only if choice and law have the same order; sorts of 40 are not stable."""
    rng = np.random.default_rng(0)
    for _ in range(20):
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
                outcome = GreedyMultiPathBlock().law_of(draft, [p / p.sum()] * (1 + len(tokens)))
                law = outcome.stop[0] * outcome.next_token[0]
                for child in set(draws[0]):
                    law[tokens[child - 1]] += outcome.stop[child]
                found[0] = found[0] + q[first] * q[second] * law
        np.testing.assert_allclose(found[0], p / p.sum(), atol=1e-12)
