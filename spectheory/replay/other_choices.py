"""Other choices on the same texts: verifiers, trees that differ a little, and drafts closer to the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spectheory.core.draft import DrawRule
from spectheory.core.ratios import clusters, influence
from spectheory.core.tree import Tree
from spectheory.otlp import NSS, RRS, Naive
from spectheory.replay.replays import Replayed, Replays
from spectheory.verify import Block, TopDown, Traversal, Verifier

COMPARED: tuple[Verifier, ...] = TopDown(NSS()), TopDown(Naive()), TopDown(RRS()), Traversal(), Block()
"""The verifiers that are laid beside the chosen one, where they suit the tree. On chains the other lossless verifiers
of this package keep as much as one of these, and on planned trees there are no others."""
CLOSER = (0.25, 0.5)
"""How much closer to the target the better drafts are."""
LEVEL = 0.95
"""Level of all intervals."""


@dataclass(frozen=True)
class WhatIf:
    """What another choice gives on the same texts.

    Attributes:
        change: what is different, in words.
        parent: the parent array of the tree.
        verifier: name of the verifier; None if it is the verifier of the record.
        tau: tokens per target call.
        low, high: its 95% interval over texts; None for one text.
        difference: tau minus the tau of the explained choice.
        difference_low, difference_high: its 95% interval, texts paired; None for one text.
    """

    change: str
    parent: tuple[int, ...]
    verifier: str | None
    tau: float
    low: float | None
    high: float | None
    difference: float
    difference_low: float | None
    difference_high: float | None


Choice = tuple[str, Tree, Verifier, DrawRule, float]
"""A change in words; tree, verifier and rule; and how much closer to the target the draft is."""


def other_choices(replays: Replays, tree: Tree, verifier: Verifier, rule: DrawRule) -> Iterator[Choice]:
    """The other choices that the texts can judge."""
    if not replays.greedy:
        for other in COMPARED:
            if other != verifier and rule in other.rules and (tree.is_chain or other.takes == "trees"):
                yield "another verifier", tree, other, rule, 0.0
    for change, paths in _changed(tree):
        changed = Tree.from_paths(paths)
        if changed.max_depth > replays.deepest or not replays.can_replay(changed):
            continue
        by, drawn = verifier, rule
        if changed.is_chain != tree.is_chain and not replays.greedy:
            drawn = planned_rule(changed)
            by = verifier if verifier.takes == "trees" and drawn in verifier.rules else Traversal()
        yield change, changed, by, drawn, 0.0
    if not replays.recorded:
        for closer in CLOSER:
            yield f"a draft {closer:.0%} closer to the target", tree, verifier, rule, closer


def _changed(tree: Tree) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """Trees that differ a little, as paths of ranks, each with the difference in words."""
    paths, deepest, children = tree.to_paths(), tree.max_depth, len(tree.child_lists[0])
    yield "one level more", [*paths, *((*path, 0) for path in paths if len(path) == deepest)]
    if deepest > 1:
        yield "one level less", [path for path in paths if len(path) < deepest]
    yield "one more child of the root", [*paths, (children,)]
    if children > 1:
        yield "one child of the root less", [path for path in paths if path[0] < children - 1]


def planned_rule(tree: Tree) -> DrawRule:
    """The rule by which planned trees are drawn."""
    return DrawRule.IID if tree.is_chain else DrawRule.NO_REPLACEMENT


def what_if(change: str, tree: Tree, verifier: str | None, found: Replayed, base: Replayed) -> WhatIf:
    """The record of one other choice."""
    difference, half = found.tau - base.tau, _difference_half_width(found, base)
    return WhatIf(
        change,
        tuple(tree.parent.tolist()),
        verifier,
        found.tau,
        *(interval(found) or (None, None)),
        difference,
        *((None, None) if half is None else (difference - half, difference + half)),
    )


def interval(replayed: Replayed) -> tuple[float, float] | None:
    """95% interval of tau; None if only one text has cycles."""
    return replayed.tau_interval(LEVEL) if clusters(replayed.cycles) > 1 else None


def _difference_half_width(one: Replayed, other: Replayed) -> float | None:
    """Half the 95% interval of the difference of two taus on the same texts, by the influence of each text on it."""
    from scipy.stats import t

    texts = clusters(other.cycles)
    if texts < 2:
        return None
    moved = influence(one.emitted, one.cycles) - influence(other.emitted, other.cycles)
    error = np.sqrt(texts / (texts - 1) * (moved**2).sum())
    return float(t.ppf((1 + LEVEL) / 2, texts - 1) * error)
