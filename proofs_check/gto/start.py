"""GTO, Section 3.2: where the group objective has a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.gto.surrogate import CLIP, advantages
from spectheory import Tree, gto

Distribution = tuple[Fraction, ...]

TARGET = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
"""The target's probabilities in both contexts."""
EPSILON = Fraction(1, 10**6)
STEP = Fraction(1, 10**9)
"""A change of a probability that is too small to reach a kink of the surrogate, on which its slope is exact."""


class Start(NamedTuple):
    """A group of two contexts: the draft's and the reference's distributions, and the token that the target emits."""

    draft: tuple[Distribution, ...]
    reference: tuple[Distribution, ...]
    emitted: tuple[int, ...]

    @property
    def trees(self) -> list[int]:
        """The drafted token of each context."""
        return [drafted(one) for one in self.draft]

    @property
    def debiased(self) -> list[Fraction]:
        """Eq. (9); a tree of one token has the reward L = T(token) for every eta."""
        return [TARGET[drafted(a)] - TARGET[drafted(b)] for a, b in zip(self.draft, self.reference, strict=True)]

    @property
    def accepted(self) -> list[bool]:
        """Whether the drafted token of each context is accepted."""
        return [tree == token for tree, token in zip(self.trees, self.emitted, strict=True)]

    @property
    def moved(self) -> bool:
        """Whether a tree is not the reference's."""
        return self.trees != [drafted(one) for one in self.reference]


def drafted(q: Distribution) -> int:
    """The most probable token, the first in a tie."""
    return q.index(max(q))


def distributions(*weights: tuple[int, int, int]) -> list[Distribution]:
    """The distributions with these weights."""
    return [tuple(Fraction(one, sum(row)) for one in row) for row in weights]


def surrogate(ratios: list[Fraction], advantage: list[Fraction]) -> Fraction:
    """Eq. (12) for ratios of any value."""
    cut = [min(max(ratio, 1 - CLIP), 1 + CLIP) for ratio in ratios]
    both = zip(ratios, cut, advantage, strict=True)
    return sum((min(ratio * weight, near * weight) for ratio, near, weight in both), Fraction(0)) / 2


def slopes(start: Start, base: tuple[Distribution, ...]) -> list[Fraction]:
    """The exact slope of the surrogate in the probability of each drafted token; a token not accepted has s = 1."""
    advantage = advantages(start.debiased, EPSILON)
    now = [
        q[tree] / b[tree] if taken else Fraction(1)
        for q, b, tree, taken in zip(start.draft, base, start.trees, start.accepted, strict=True)
    ]
    found = []
    for context, (b, tree, taken) in enumerate(zip(base, start.trees, start.accepted, strict=True)):
        step = STEP / b[tree] if taken else Fraction(0)
        raised = [ratio + step if place == context else ratio for place, ratio in enumerate(now)]
        found.append((surrogate(raised, advantage) - surrogate(now, advantage)) / STEP)
    return found


def still(start: Start) -> bool:
    """Whether the slopes are 0, for s against the draft that grew the trees and against the reference."""
    return not any(slopes(start, start.draft) + slopes(start, start.reference))


def cut(start: Start, context: int, weight: Fraction) -> bool:
    """Whether the clip cuts the ratio to the reference of a context with this advantage, for a rise of the ratio."""
    tree = start.trees[context]
    ratio = start.draft[context][tree] / start.reference[context][tree]
    return ratio >= 1 + CLIP if weight > 0 else ratio < 1 - CLIP


def as_corrected(start: Start) -> bool:
    """Whether the slopes of both readings are other than 0 exactly where the corrected statement says so."""
    weights = advantages(start.debiased, EPSILON)
    felt = [bool(weight) and taken for weight, taken in zip(weights, start.accepted, strict=True)]
    uncut = [one and not cut(start, place, weights[place]) for place, one in enumerate(felt)]
    own, theirs = slopes(start, start.draft), slopes(start, start.reference)
    return [bool(one) for one in own] == felt and [bool(one) for one in theirs] == uncut


SHARP = distributions((2, 1, 1), (1, 2, 1), (1, 1, 2))
"""Each drafts another token."""
GRIDS = [
    distributions((3, 1, 1), (2, 2, 1), (1, 3, 1), (1, 1, 3)),
    distributions((3, 1, 1), (2, 2, 1), (2, 1, 2), (1, 3, 1), (1, 2, 2), (1, 1, 3)),
]
"""The policies of a context, by effort; the first two of each draft the same token with different probabilities."""


def starts(policies: list[Distribution]) -> Iterator[Start]:
    """All groups of two contexts with these policies, in which the target emits the first or the second token."""
    pairs = list(product(policies, repeat=2))
    for reference, draft, emitted in product(pairs, pairs, product(range(2), repeat=2)):
        yield Start(draft, reference, emitted)


@claim("T-START")
def start_of_training(effort: int) -> Finding:
    case = smallest(
        [one for one in starts(SHARP) if all(one.accepted) and min(one.debiased) > 0],
        lambda *one: Start(*one).moved and still(Start(*one)),
    )
    cases = list(starts(GRIDS[min(effort, len(GRIDS)) - 1]))
    unmoved = sum(not one.moved for one in cases)
    moving = sum(any(slopes(one, one.draft)) for one in cases)
    shown = {
        "target": TARGET,
        "emitted": case.emitted,
        "reference": case.reference,
        "policy": case.draft,
        "debiased_rewards": case.debiased,
        "slopes": slopes(case, case.draft) + slopes(case, case.reference),
    }

    def values(one: Start) -> dict[str, bool]:
        weights = advantages(one.debiased, EPSILON)
        felt = any(bool(weight) and taken for weight, taken in zip(weights, one.accepted, strict=True))
        return {"moved": one.moved, "no_gradient": still(one), "as_stated": as_corrected(one), "felt": felt}

    return Finding(
        {"still": unmoved, "count": len(cases), "moving": moving},
        shown,
        cases={"start": (values(one) for one in (case, *cases))},
    )


@second("T-START")
def _(case: Case) -> dict[str, Any]:
    rewards = []
    for name in ("policy", "reference"):
        tokens = [sorted(range(3), key=lambda token, q=q: (-q[token], token))[0] for q in case[name]]
        if name == "policy":
            assert tokens == list(case["emitted"])
        chances = [[1, float(case["target"][token])] for token in tokens]
        rewards.append([gto.draft_tree_reward(Tree.chain(1), chance, 1.0) for chance in chances])
    gains = [Fraction(a) - Fraction(b) for a, b in zip(*rewards, strict=True)]
    assert gains == list(case["debiased_rewards"])
    mean = sum(gains) / 2
    spread = (sum((gain - mean) ** 2 for gain in gains) / 2) ** 0.5
    weights = [float(gain - mean) / (spread + 1e-6) for gain in gains]
    ratios = [(i / 10, j / 10) for i in range(1, 31) for j in range(1, 31)]
    for pair in ratios:
        kept = [min(max(ratio, 0.8), 1.2) for ratio in pair]
        assert sum(min(s * w, c * w) for s, c, w in zip(pair, kept, weights, strict=True)) == 0
    return {"gain": gains[0], "ratios": len(ratios)}
