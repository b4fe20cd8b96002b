"""The bets behind the sequential certificate: fair by exact sums, false alarms counted.

Statistical tests name their error level; every seed is fixed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from spectheory.certify.betting import Joint, Wager, pooled
from spectheory.certify.step import look_times


def joint_of(rng: np.random.Generator, size: int, length: int, zeros: bool = False) -> Joint:
    given = [rng.dirichlet(np.full(size, 0.5), size=size**m) for m in range(length)]
    if zeros:
        given = [distribution * (distribution >= np.sort(distribution, axis=1)[:, 1:2]) for distribution in given]
        given = [distribution / distribution.sum(axis=1, keepdims=True) for distribution in given]
    return Joint(given)


def right_rule(joint: Joint, stops: list[np.ndarray]) -> np.ndarray:
    """(nodes,) distribution of the emitted prefix of a step that draws from the target and ends with chance
    stops[l][prefix].

    The chance of an end may depend on the tokens emitted, as in every speculative step, not on those to come.
    """
    alive, distribution = np.ones(1), []
    for level, given in enumerate(joint.given, start=1):
        alive = (alive[:, None] * given).ravel()
        ends = stops[level - 1] if level < joint.length else np.ones(len(alive))
        distribution.append(alive * ends)
        alive = alive * (1 - ends)
    return np.concatenate(distribution)


def right_rules(rng: np.random.Generator) -> list[tuple[list[Joint], list[np.ndarray]]]:
    """Right steps of many kinds, each with its joint distributions and the distributions of its emitted prefixes, by
    context.
    """
    rules = []
    for size, length, contexts, kind in (
        (2, 1, 1, "random"), (4, 2, 1, "random"), (10, 2, 1, "random"), (10, 2, 1, "short"), (10, 2, 1, "long"),
        (50, 1, 1, "random"), (3, 3, 1, "random"), (6, 3, 1, "zeros"), (5, 2, 3, "random"), (30, 2, 1, "residual"),
    ):  # fmt: skip
        joints = [joint_of(rng, size, length, kind == "zeros") for _ in range(contexts)]
        emitted = []
        for joint in joints:
            stops = [rng.random(size**level) for level in range(1, length)]
            if kind in ("short", "long"):
                stops = [np.full(len(stop), kind == "short") for stop in stops]
            if kind == "residual":  # of speculative decoding with one draft: P(end | token) = (p - q)+ / p
                p, q = joint.levels[1], rng.dirichlet(np.ones(size))
                stops = [np.clip(p - q, 0, None) / p]
            emitted.append(right_rule(joint, stops))
        rules.append((joints, emitted))
    return rules


def richest(joints: list[Joint], emitted: list[np.ndarray], most: int, rng: np.random.Generator) -> float:
    """Logarithm of the highest wealth at any look; each batch is drawn as counts."""
    wagers, highest = [Wager(joint) for joint in joints], 0.0
    for runs in look_times(most):
        for wager, distribution in zip(wagers, emitted, strict=True):
            wager.settle(rng.multinomial(runs - wager.runs, distribution / distribution.sum()).astype(float))
        highest = max(highest, pooled([wager.log_wealth() for wager in wagers]))
    return highest


@pytest.mark.parametrize("tests", [40, pytest.param(1000, marks=pytest.mark.deep)])
def test_false_alarms_stay_below_alpha(tests: int) -> None:
    """Tests of right steps, looked at up to 2,000 runs in each context, and read at three levels.

    More alarms than the bound have probability at most 1e-4 where the level holds (Binomial(tests, alpha)).
    """
    rng, highest = np.random.default_rng(5), []
    for joints, emitted in right_rules(rng):
        for joint, distribution in zip(joints, emitted, strict=True):
            np.testing.assert_allclose(joint.extended(distribution)[-1], joint.levels[-1], atol=1e-14)  # right indeed
        highest += [richest(joints, emitted, 2_000, rng) for _ in range(tests // 10)]
    alarms = {alpha: int((np.array(highest) >= -math.log(alpha)).sum()) for alpha in (0.01, 0.1, 0.5)}
    print("alarms", alarms)
    assert len(highest) == tests
    assert all(count <= binom.ppf(1 - 1e-4, tests, alpha) for alpha, count in alarms.items())
    assert alarms[0.5] > 0  # wealth does move


def test_the_alarm_rings_for_a_selection() -> None:
    """The control of the test above: counting only the runs that accept makes a right step look wrong."""
    rng = np.random.default_rng(6)
    joints, (distribution,) = right_rules(rng)[-1]
    selected = np.where(np.arange(len(distribution)) < joints[0].offsets[2], 0, distribution)
    assert all(richest(joints, [selected], 1_000, rng) >= math.log(1e6) for _ in range(10))


def bet(joint: Joint, *batches: np.ndarray) -> Wager:
    wager = Wager(joint)
    for batch in batches:
        wager.settle(batch)
    return wager


@pytest.mark.parametrize(("size", "length", "zeros"), [(3, 2, False), (4, 2, True), (2, 3, False), (3, 1, False)])
def test_every_bet_is_fair(size: int, length: int, zeros: bool) -> None:
    """After any past, the wealth of each bettor and of the mixture has the mean that it had, over one more run."""
    rng = np.random.default_rng(3)
    joint = joint_of(rng, size, length, zeros)
    stops = [rng.random(size**level) for level in range(1, length)]
    rules = [right_rule(joint, stops), right_rule(joint, [np.ones(len(s)) for s in stops])]
    possible = ~np.array(joint.impossible)
    past = [rng.integers(0, 9, joint.nodes) * possible * 1.0 for _ in range(2)]
    for distribution in rules:
        before, after = bet(joint, *past), np.zeros(2 + length)
        for node in np.flatnonzero(distribution):
            wager = bet(joint, *past, np.eye(joint.nodes)[node])
            gained = np.append(wager.logs - before.logs, wager.log_wealth() - before.log_wealth())
            after += distribution[node] * np.exp(gained)
        np.testing.assert_allclose(after, 1, rtol=0, atol=1e-12)
