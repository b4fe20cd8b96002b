"""Verifiers against procedures written from their papers, draft by draft, over all branches."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory import DrawRule, Paths, World
from spectheory.core.chance import draw
from spectheory.verify import Block, GreedyMultiPathBlock, Traversal, TreeMonteCarlo
from tests.verify.random_drafts import CHAINS, OTHERS, PATHS, TREES, WIDE, grown, joint, played, random_world


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


def few(often: int, seeds: int) -> list[Any]:
    """Some of the seeds; the others are `deep`."""
    return [pytest.param(seed, marks=[pytest.mark.deep] if seed >= often else []) for seed in range(seeds)]


@pytest.mark.parametrize("seed", few(12, 34))
def test_a_procedure_on_a_chain_has_the_distribution_and_the_three_agree_draft_by_draft(seed: int) -> None:
    for number, policy in enumerate(CHAINS):
        draft, p = grown(policy, 100 * seed + number, 2 + seed % 2)
        x = [int(token) for token in draft.tokens[1:]]
        distribution = joint(Block().outcome(draft, p))
        assert distribution == played(lambda rng, x=x, p=p, q=draft.q: block(x, p, q, rng))
        assert distribution == joint(TreeMonteCarlo().outcome(draft, p))
        assert distribution == played(lambda rng, x=x, p=p, q=draft.q: tree_monte_carlo(x, p, q, rng))
        assert distribution == joint(Traversal().outcome(replace(draft, rule=DrawRule.IID), p))


@pytest.mark.parametrize("seed", few(6, 16))
def test_a_procedure_on_a_tree_has_the_distribution_of_traversal(seed: int) -> None:
    for number, policy in enumerate([*TREES, *PATHS, *OTHERS, *WIDE]):
        draft, p = grown(policy, 100 * seed + number, 2 + seed % 2)
        assert joint(Traversal().outcome(draft, p)) == played(lambda rng, d=draft, p=p: traversal(d, p, rng))  # type: ignore


def best_path(world: World, policy: Paths, draft: st.Draft) -> tuple[list[int], list[np.ndarray]]:
    """The largest path of a draft with its q~, from the distribution of the largest of K whole paths after the
    trunk.
    """
    trunk: tuple[int, ...] = draft.context(int(draft.tree.depth.tolist().index(policy.trunk)))
    size, distribution = len(draft.q[0]), {}
    seen: Any = Fraction(0)

    def key(path: tuple[int, ...]) -> list[Any]:
        cuts = [(world.p(path[:i])[path[i]], world.q(path[:i])[path[i]], path[i]) for i in range(len(path))]
        return [(p / q, token) if q else (-1, token) for p, q, token in cuts]

    every = [(*trunk, *tail) for tail in itertools.product(range(size), repeat=policy.length)]
    for path in sorted(every, key=key):
        chance = math.prod(world.q(path[:i])[path[i]] for i in range(policy.trunk, len(path)))
        distribution[path], seen = (seen + chance) ** policy.paths - seen**policy.paths, seen + chance
    drafted = [draft.context(node) for node in range(draft.tree.budget + 1)]
    best = max((path for path in drafted if len(path) == policy.trunk + policy.length), key=key)
    q = [world.q(best[:i]) for i in range(policy.trunk)]
    for i in range(policy.trunk, len(best)):
        masses = [sum(distribution[path] for path in every if path[: i + 1] == (*best[:i], y)) for y in range(size)]
        q.append(np.array([mass / sum(masses) for mass in masses], dtype=object))
    return list(best), q


@pytest.mark.parametrize("seed", few(18, 56))
def test_greedy_multi_path_is_block_on_the_largest_path_by_the_distribution_of_whole_paths(seed: int) -> None:
    for number, policy in enumerate(PATHS):
        rng = np.random.default_rng(100 * seed + number)
        world = random_world(rng, 2 + seed % 2)
        draft = policy.grow(world, rng)
        x, q = best_path(world, policy, draft)
        p = [world.p(tuple(x[:i])) for i in range(len(x) + 1)]
        distribution = played(lambda rng, x=x, p=p, q=q: block(x, p, q, rng))
        ours = joint(GreedyMultiPathBlock().outcome(draft, world.target(draft)))
        assert {(draft.context(node), token): mass for (node, token), mass in ours.items()} == {
            (tuple(x[:n]), token): mass for (n, token), mass in distribution.items()
        }
