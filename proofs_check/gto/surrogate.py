"""GTO, Section 3.2 and Appendix B.2: what the training objective wants."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import sympy

from proofs_check.claims import Case, Finding, claim, second, smallest
from spectheory import Tree, gto

DraftChances = tuple[Fraction, ...]
"""The draft's probability of token A in each context of a group; B has the rest."""

STEPS = 20
CLIP = Fraction(1, 5)
GRID = [Fraction(step, STEPS) for step in range(1, STEPS)]


def tree_reward(a: Fraction) -> Fraction:
    """One drafted token, the draft's more probable one (A in a tie), under a greedy target that emits A: r = L."""
    return Fraction(a >= Fraction(1, 2))


def advantages(rewards: list[Fraction], epsilon: Fraction) -> list[Fraction]:
    """Eq. (10) for two contexts; the standard deviation of two rewards is half their distance."""
    mean = sum(rewards, Fraction(0)) / 2
    spread = abs(rewards[0] - rewards[1]) / 2
    return [(one - mean) / (spread + epsilon) for one in rewards]


def surrogate(new: DraftChances, old: DraftChances, advantage: list[Fraction]) -> Fraction:
    """Eq. (12): the accepted sequence is A in both contexts, so s = new / old; its length is 1."""
    total = Fraction(0)
    for a, b, weight in zip(new, old, advantage, strict=True):
        ratio = a / b
        total += min(ratio * weight, min(max(ratio, 1 - CLIP), 1 + CLIP) * weight)
    return total / 2


def best(base: DraftChances, advantage: list[Fraction]) -> list[DraftChances]:
    """Every policy of the grid that maximises the surrogate."""
    values = {policy: surrogate(policy, base, advantage) for policy in product(GRID, repeat=2)}
    most = max(values.values())
    return [policy for policy, value in values.items() if value == most]


def debiased(old: DraftChances, reference: DraftChances) -> list[Fraction]:
    """Eq. (9): the reward less the reference's reward."""
    return [tree_reward(a) - tree_reward(b) for a, b in zip(old, reference, strict=True)]


def total_reward(policy: DraftChances) -> Fraction:
    return sum(map(tree_reward, policy), Fraction(0))


def harmful(old: DraftChances, reference: DraftChances) -> bool:
    """Whether all maximisers have less reward than the drawing policy, for s relative to it and to the reference."""
    rewards = debiased(old, reference)
    if rewards[0] == rewards[1]:
        return False
    advantage = advantages(rewards, Fraction(1, 10**6))
    found = [*best(old, advantage), *best(reference, advantage)]
    return max(map(total_reward, found)) < total_reward(old)


def shown(old: DraftChances, reference: DraftChances) -> dict[str, Any]:
    """The counterexample, with every maximiser of the surrogate."""
    rewards = debiased(old, reference)
    advantage = advantages(rewards, Fraction(1, 10**6))
    found = best(old, advantage)
    return {
        "policy": old,
        "reference": reference,
        "debiased_rewards": rewards,
        "clip": CLIP,
        "advantage_signs": [1 if one > 0 else -1 for one in advantage],
        "reward_before": total_reward(old),
        "maximisers": len(found),
        "maximisers_A_at_least": [min(policy[i] for policy in found) for i in range(2)],
        "maximisers_A_at_most": [max(policy[i] for policy in found) for i in range(2)],
        "reward_of_every_maximiser": max(map(total_reward, found)),
    }


def standardised(largest: int) -> None:
    """Advantages sum to 0 and ignore a common shift and scale: numerators of Eq. (10), groups up to `largest`."""
    shift, scale = sympy.symbols("shift scale", positive=True)
    for size in range(2, largest + 1):
        r = sympy.symbols(f"r1:{size + 1}", real=True)
        assert sympy.expand(sum(one - sum(r) / size for one in r)) == 0  # std + epsilon divides all alike
        moved = [scale * one + shift for one in r]
        for one, other in zip(moved, r, strict=True):
            assert sympy.expand((one - sum(moved) / size) - scale * (other - sum(r) / size)) == 0


@claim("T-ADV")
def group_advantage(effort: int) -> Finding:
    levels = [Fraction(level, STEPS) for level in (9, 11, 12)]
    policies = list(product(levels, repeat=2))
    old, reference = smallest(product(policies, repeat=2), harmful)
    standardised(4 + effort)

    def at_start(new: DraftChances, one: DraftChances) -> dict[str, Fraction]:
        weights = advantages(debiased(one, one), Fraction(1, 10**6))
        return {"surrogate": surrogate(new, one, weights), "sum_of_advantages": sum(weights, Fraction(0))}

    def of_maximisers(old: DraftChances, reference: DraftChances) -> dict[str, Fraction]:
        weights = advantages(debiased(old, reference), Fraction(1, 10**6))
        found = max(map(total_reward, [*best(old, weights), *best(reference, weights)]))
        told = {"reward_of_maximisers": found, "reward": total_reward(old)}
        return told | {"sum_of_advantages": sum(weights, Fraction(0))}

    starts = [*product(product(GRID, repeat=2), policies)]
    return Finding(
        {"still": len(starts)},
        shown(old, reference),
        cases={"group": [of_maximisers(old, reference)], "start": (at_start(*one) for one in starts)},
    )


@second("T-ADV")
def _(case: Case) -> dict[str, Any]:
    start = list(case["policy"])
    policy, rate, steps = list(start), Fraction(1, 100), 0

    def accepted(a: Fraction) -> float:
        emits = {"A": 1.0, "B": 0.0}["A" if a >= 1 - a else "B"]
        return gto.expected_accepted(Tree.chain(1), [1, emits])

    rewards = [accepted(a) - accepted(b) for a, b in zip(start, case["reference"], strict=True)]
    assert rewards == [float(one) for one in case["debiased_rewards"]]
    signs = [1 if one > sum(rewards) / 2 else -1 for one in rewards]
    before = sum(map(accepted, policy))
    while True:  # gradient ascent on the surrogate, whose slope is the sign until the clip cuts it to 0
        ratios = [a / b for a, b in zip(policy, start, strict=True)]
        slopes = [
            sign if (r < 1 + CLIP if sign > 0 else r > 1 - CLIP) else 0 for r, sign in zip(ratios, signs, strict=True)
        ]
        if not any(slopes):
            break
        policy = [a + rate * slope for a, slope in zip(policy, slopes, strict=True)]
        steps += 1
    after = sum(map(accepted, policy))
    assert before == case["reward_before"]
    assert after == case["reward_of_every_maximiser"]
    assert after < before
    return {"steps": steps, "policy": ", ".join(map(str, policy)), "after": int(after), "before": int(before)}


@claim("T-CE")
def cross_entropy(effort: int) -> Finding:
    differences = []
    for size in range(2, 5 + effort):
        p = sympy.symbols(f"p1:{size + 1}", positive=True)
        q = sympy.symbols(f"q1:{size + 1}", positive=True)
        both = list(zip(p, q, strict=True))
        entropy = -sum(a * sympy.log(a) for a in p)
        crossed = -sum(a * sympy.log(b) for a, b in both)
        divergence = sum(a * sympy.log(a / b) for a, b in both)
        differences.append({"rest": sympy.expand(sympy.expand_log(crossed - divergence - entropy))})
    return Finding({"size": 4 + effort}, cases={"size_of_vocabulary": differences})
