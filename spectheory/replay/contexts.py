"""Hard and easy contexts: the cycles by how well the draft did just before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped

from spectheory.core.draft import DrawRule
from spectheory.core.ratios import clusters, ratio_half_width
from spectheory.core.tree import Tree
from spectheory.otlp import Naive
from spectheory.replay.replays import Replays
from spectheory.verify import Greedy, TopDown, Verifier

RECENT = 8
"""Tokens before a cycle by which its context is called easy or hard."""


@dataclass(frozen=True)
class ContextGroup:
    """The cycles that start in easier or harder contexts, by the drafts for the `RECENT` tokens before.

    Attributes:
        lowest, highest: of the share of these tokens that a draft of one token would have kept.
        positions: share of the positions at which a cycle could start.
        cycles: share of the cycles that start there.
        tau: tokens of these cycles for each of them.
        low, high: its 95% interval over texts; None if fewer than 2 texts have such cycles.
    """

    lowest: float
    highest: float
    positions: float
    cycles: float
    tau: float
    low: float | None
    high: float | None


def context_groups(replays: Replays, tree: Tree, verifier: Verifier, rule: DrawRule) -> Iterator[ContextGroup]:
    """The cycles in quarters of the positions, by the share of the tokens before that a draft of one would have kept.

    The share is known before the cycle, to an engine too. Positions of equal share stay together, so that the quarters
    are uneven where many are equal.
    """
    starts = replays.starts(tree, verifier, rule)
    kept = replays.kept(tree, verifier, rule)
    alone = Greedy() if replays.greedy else TopDown(Naive())
    recent = [_recent(rows[:, 1]) for rows in replays.kept(Tree.chain(1), alone, DrawRule.IID)]
    places = [slice(replays.first, len(started)) for started in starts]
    shares = [values[place] for values, place in zip(recent, places, strict=True)]
    counted = [started[place] for started, place in zip(starts, places, strict=True)]
    tokens = [
        (started[:, None] * rows[place]).sum(1) for started, rows, place in zip(counted, kept, places, strict=True)
    ]
    every, cycles = np.concatenate(shares), sum(started.sum() for started in counted)
    bounds = np.unique(np.quantile(every, [0.25, 0.5, 0.75]))
    for group in range(len(bounds) + 1):
        inside = [np.searchsorted(bounds, values, side="right") == group for values in shares]
        held = every[np.concatenate(inside)]
        emitted = np.array([values[chosen].sum() for values, chosen in zip(tokens, inside, strict=True)])
        begun = np.array([values[chosen].sum() for values, chosen in zip(counted, inside, strict=True)])
        if not begun.sum() > 0:
            continue
        tau = emitted.sum() / begun.sum()
        half = ratio_half_width(emitted, begun) if clusters(begun) > 1 else None
        yield ContextGroup(
            float(held.min()),
            float(held.max()),
            len(held) / len(every),
            float(begun.sum() / cycles),
            float(tau),
            *((None, None) if half is None else (float(tau - half), float(tau + half))),
        )


def _recent(kept: np.ndarray) -> Shaped[np.ndarray, " n"]:
    """Mean of `kept` over the `RECENT` positions before each, or as many as there are; 0.5 at the first one."""
    total = np.append(0, np.minimum(kept, 1).cumsum())
    places = np.arange(len(kept))
    first = np.maximum(places - RECENT, 0)
    return np.where(places > 0, (total[places] - total[first]) / np.maximum(places - first, 1), 0.5)
