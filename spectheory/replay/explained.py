"""Why tau is what it is on recorded texts, and what changes would give: `explain` and its record, `Explained`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.ratios import clusters, ratio_half_width
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.otlp import NSS, RRS, Naive
from spectheory.replay.greedy import ChainText, GreedyText
from spectheory.replay.kernels import Text
from spectheory.replay.replays import Replayed, Replays
from spectheory.results.tally import Tally
from spectheory.verify import Block, Greedy, TopDown, Traversal, Verifier, name_of

COMPARED: tuple[Verifier, ...] = TopDown(NSS()), TopDown(Naive()), TopDown(RRS()), Traversal(), Block()
"""The verifiers that are laid beside the chosen one, where they suit the tree. On chains the other lossless verifiers
of this package keep as much as one of these, and on planned trees there are no others."""
CLOSER = (0.25, 0.5)
"""How much closer to the target the better drafts are."""
RECENT = 8
"""Tokens before a cycle by which its context is called easy or hard."""
MOST_RANKS = 16
"""Ranks from this one on are counted together with tokens that the draft did not propose."""
LEVEL = 0.95
"""Level of all intervals."""

Progress = Callable[[int, int], None]
"""Callback with (finished, total) numbers of replays."""


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


@dataclass(frozen=True)
class WhatIf:
    """What another choice gives on the same texts.

    Attributes:
        change: what is different, in words.
        parent: the parent array of the tree.
        verifier: name of the verifier; None where it is that of the record.
        tau: tokens per target call.
        low, high: its 95% interval over texts; None for one text.
        difference: tau less that of the explained choice.
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


@dataclass(frozen=True, eq=False, repr=False)
class Explained(Record):
    """Where the cycles of one tree and verifier end on R texts, and what other choices give.

    All shares are of the cycles that `Replays.replay` counts: averages over the positions of the texts, with the
    probability that a cycle starts there.

    Attributes:
        tree: the tree.
        verifier: name of the verifier; None where it is that of the record.
        replayed: the cycles of each text.
        reach: (budget + 1,) share of the cycles that keep each node.
        perfect: (L,) tau of a draft that never misses at one depth: there the first child of each node is always the
            next token of the text, and is kept; at other depths the draft is the recorded one. Entry d is for the
            children of nodes at depth d. Empty for records of accepted lengths.
        next_child: (L,) share of the cycles that end at a node at depth d with children, although the token of the text
            is the very next candidate after these: one more child of each node there would have kept it. Empty unless
            the texts are greedy.
        missed: (2, M + 1) share of the cycles that end where the token of the text has rank 0, ..., M - 1 among the
            draft's candidates, most probable first; the last entry is for all other tokens. The first row is for nodes
            with children, the second for leaves. Empty for records of accepted lengths.
        contexts: the cycles by how well the draft did just before.
        what_if: other choices on the same texts.
        measured: tally of a run whose requests are those of the texts, in their order; None if there is none.

    Raises:
        InputError: the shapes disagree, or the tally has another number of requests, tree or verifier.
    """

    kind: ClassVar[str] = "explained"

    tree: Tree
    verifier: str | None
    replayed: Replayed
    reach: np.ndarray
    perfect: np.ndarray
    next_child: np.ndarray
    missed: np.ndarray
    contexts: tuple[ContextGroup, ...]
    what_if: tuple[WhatIf, ...]
    measured: Tally | None = None

    def __post_init__(self) -> None:
        depths = self.tree.max_depth
        allowed = {
            "reach": ((self.tree.budget + 1,),),
            "perfect": ((depths,), (0,)),
            "next_child": ((depths,), (0,)),
            "missed": ((2, MOST_RANKS + 1), (0,)),
        }
        for name, shapes in allowed.items():
            value = np.asarray(getattr(self, name), np.float64)
            if value.shape not in shapes or not np.isfinite(value).all():
                raise InputError(f"{name} must be finite and have the shape {shapes[0]}, got {value.shape}")
            object.__setattr__(self, name, value)
        if len(self.replayed.accepted) != depths + 1:
            raise InputError(
                f"replayed must count cycles that keep 0 to {depths} tokens, as deep as {self.tree}, got "
                f"{len(self.replayed.accepted)} counts"
            )
        if self.measured is not None:
            _require_same(self.measured, self)

    @property
    def summary(self) -> str:
        """Tree, verifier and tau."""
        by = f", verified by {self.verifier}" if self.verifier else ""
        return f"{drafted(self.tree)}{by}: {self.replayed.summary}"

    @property
    def tau_interval(self) -> tuple[float, float] | None:
        """95% interval of tau on other texts like these; None for one text."""
        return _interval(self.replayed)

    @property
    def reached(self) -> np.ndarray:
        """(L + 1,) share of the cycles that keep at least 0..L tokens."""
        return np.bincount(self.tree.depth, self.reach)

    @property
    def ended_at_leaf(self) -> np.ndarray:
        """(L + 1,) share of the cycles that end at depth 0..L because nothing was drafted below."""
        leaves = np.bincount(self.tree.parent[1:], minlength=self.tree.budget + 1) == 0
        return np.bincount(self.tree.depth, self.reach * leaves)

    @property
    def ended_by_miss(self) -> np.ndarray:
        """(L + 1,) share of the cycles that end at depth 0..L because no child was the text's token and was kept."""
        return self.reached - np.append(self.reached[1:], 0) - self.ended_at_leaf

    @property
    def kept_by_rank(self) -> np.ndarray:
        """(fanout,) drafted tokens that a cycle keeps through children of rank 0, 1, ..., on average."""
        return np.bincount(self.tree.rank[1:], self.reach[1:])

    @property
    def request_tau(self) -> np.ndarray:
        """(R,) expected tokens over expected cycles of each text; NaN where no cycle fits."""
        return _ratio(self.replayed.emitted, self.replayed.cycles)

    @property
    def request_deviation(self) -> np.ndarray:
        """(R,) standard deviation of a request's tau over draws and coins, given its text, to first order.

        The text itself is another source of differences, so that other texts of the same prompts vary more.
        """
        spread = np.sqrt(np.maximum(self.replayed.variance, 0))
        return self.request_tau * _ratio(spread, self.replayed.cycles)

    @property
    def measured_tau(self) -> np.ndarray | None:
        """(R,) measured tau of each request; None if nothing was measured."""
        return None if self.measured is None else _ratio(self.measured.emitted, self.measured.cycles)


def explain(
    replays: Replays,
    tree: Tree,
    verifier: Verifier | None = None,
    rule: DrawRule | None = None,
    *,
    measured: Tally | None = None,
    progress: Progress = lambda finished, total: None,
) -> Explained:
    """Where tau is lost with a tree and a verifier on recorded texts, and what other choices give on the same texts.

    The other choices are: other lossless verifiers; a tree that is one level deeper or less deep, or has a child of the
    root more or less; and a draft that is closer to the target, see `closer` of `Replays.replay`. A choice that the
    texts cannot judge is left out: a tree too deep or too wide for them, or a better draft for records of accepted
    lengths. If a chain becomes a tree, it is drawn without replacement, and verified by `Traversal` where the verifier
    does not suit trees.

    Args:
        replays: the texts.
        tree: a static tree with at least one drafted node.
        verifier: the verifier; None takes `Greedy` for greedy text and `TopDown(Naive())` otherwise.
        rule: how children are drawn; None takes independent draws for a chain, and draws without replacement for a
            tree. Greedy decoding draws nothing.
        measured: tally of a run whose requests are those of the texts, in their order.
        progress: callback to which the number of finished replays is reported.

    Raises:
        InputError: the tree has no drafted node, it cannot be replayed on the texts with this verifier, or the tally is
            of another tree, verifier or number of requests.
    """
    if not tree.budget:
        raise InputError("tree must have at least one drafted node to be explained, got the root alone")
    if verifier is None:
        verifier = Greedy() if replays.greedy else TopDown(Naive())
    if rule is None:
        rule = _usual_rule(tree, verifier)
    replayed = replays.replay(tree, verifier, rule)
    others = list(_others(replays, tree, verifier, rule))
    depths = range(0 if replays.recorded else tree.max_depth)
    total = len(others) + len(depths)
    perfect, what_if = [], []
    for depth in depths:
        progress(depth, total)
        perfect.append(replays.replay(tree, verifier, rule, perfect=depth).tau)
    for number, (change, other, by, drawn, closer) in enumerate(others, start=len(depths)):
        progress(number, total)
        found = replays.replay(other, by, drawn, closer=closer)
        name = None if replays.recorded else name_of(by)
        what_if.append(_what_if(change, other, name, found, replayed))
    next_child, missed = _missed(replays, tree, verifier, rule)
    return Explained(
        tree=tree,
        verifier=None if replays.recorded else name_of(verifier),
        replayed=replayed,
        reach=replays.reach(tree, verifier, rule),
        perfect=np.array(perfect),
        next_child=next_child,
        missed=missed,
        contexts=tuple(_contexts(replays, tree, verifier, rule)),
        what_if=tuple(what_if),
        measured=measured,
    )


def drafted(tree: Tree) -> str:
    """A tree in words."""
    return f"chain of {tree.budget}" if tree.is_chain else f"tree of {tree.budget}, {tree.max_depth} deep"


def _require_same(tally: Tally, explained: Explained) -> None:
    """Check that a tally can be laid beside the replayed requests. Raises InputError if not."""
    texts, requests, stamp = len(explained.replayed.cycles), len(tally.cycles), tally.provenance
    if requests != texts:
        raise InputError(
            f"measured must have one request for each of the {texts} texts, got {requests}: decode the prompts of the "
            "trace, with the same --skip and --count"
        )
    if stamp.tree not in (None, explained.tree.identity):
        raise InputError(
            f"measured must be of the explained tree, {explained.tree}, got a tally of another tree: explain the tree "
            "that was decoded"
        )
    if stamp.verifier and explained.verifier and not re.search(rf"\b{explained.verifier}\(", stamp.verifier):
        raise InputError(
            f"measured must be verified by {explained.verifier}, got a tally of {stamp.verifier}: explain the verifier "
            "that decoded"
        )


def _usual_rule(tree: Tree, verifier: Verifier) -> DrawRule:
    """The rule by which planned trees are drawn, or the first one for which the verifier is lossless."""
    planned = _planned_rule(tree)
    return planned if planned in verifier.rules else verifier.rules[0]


def _planned_rule(tree: Tree) -> DrawRule:
    """The rule by which planned trees are drawn."""
    return DrawRule.IID if tree.is_chain else DrawRule.NO_REPLACEMENT


Choice = tuple[str, Tree, Verifier, DrawRule, float]
"""A change in words; tree, verifier and rule; and how much closer to the target the draft is."""


def _others(replays: Replays, tree: Tree, verifier: Verifier, rule: DrawRule) -> Iterator[Choice]:
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
            drawn = _planned_rule(changed)
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


def _what_if(change: str, tree: Tree, verifier: str | None, found: Replayed, base: Replayed) -> WhatIf:
    """The record of one other choice."""
    difference, half = found.tau - base.tau, _difference_half_width(found, base)
    return WhatIf(
        change,
        tuple(tree.parent.tolist()),
        verifier,
        found.tau,
        *(_interval(found) or (None, None)),
        difference,
        *((None, None) if half is None else (difference - half, difference + half)),
    )


def _interval(replayed: Replayed) -> tuple[float, float] | None:
    """95% interval of tau; None if only one text has cycles."""
    return replayed.tau_interval(LEVEL) if np.count_nonzero(replayed.cycles) > 1 else None


def _difference_half_width(one: Replayed, other: Replayed) -> float | None:
    """Half the 95% interval of the difference of two taus on the same texts, by the influence of each text on it."""
    from scipy.stats import t

    texts = np.count_nonzero(other.cycles)
    if texts < 2:
        return None
    influence = [(each.emitted - each.tau * each.cycles) / each.cycles.sum() for each in (one, other)]
    error = np.sqrt(texts / (texts - 1) * ((influence[0] - influence[1]) ** 2).sum())
    return float(t.ppf((1 + LEVEL) / 2, texts - 1) * error)


def _missed(replays: Replays, tree: Tree, verifier: Verifier, rule: DrawRule) -> tuple[np.ndarray, np.ndarray]:
    """`next_child` and `missed` of `Explained`."""
    if replays.recorded:
        return np.zeros(0), np.zeros(0)
    fanout = np.bincount(tree.parent[1:], minlength=tree.budget + 1)
    next_child, missed, cycles = np.zeros(tree.max_depth), np.zeros((2, MOST_RANKS + 1)), 0.0
    starts = replays.starts(tree, verifier, rule)
    for text, started, passed in zip(replays.texts, starts, replays.passed(tree, verifier, rule), strict=True):
        ranks, whole = ranks_of(text), len(started)
        cycles += started.sum()
        for node in range(tree.budget + 1):
            depth = int(tree.depth[node])
            stopped = started * (passed[:whole, node] - passed[:whole, list(tree.child_lists[node])].sum(1))
            there = ranks[min(depth, len(ranks) - 1), depth : depth + whole]
            place = np.where((there < 0) | (there >= MOST_RANKS), MOST_RANKS, there)
            missed[int(fanout[node] == 0)] += np.bincount(place, stopped, MOST_RANKS + 1)
            if fanout[node]:
                next_child[depth] += stopped @ (there == fanout[node])
    greedy = isinstance(replays.texts[0], GreedyText)
    return next_child / cycles if greedy else np.zeros(0), missed / cycles


def ranks_of(text: Text) -> np.ndarray:
    """(D, n) rank of each token of a text among the draft's candidates, the most probable first; -1 if there is none.

    Raises:
        InputError: the text has accepted lengths only.
    """
    if isinstance(text, GreedyText):
        return text.ranks
    if isinstance(text, ChainText):
        raise InputError("text must have ranks or probabilities, got recorded lengths only")
    tokens = text.tokens[:, None]
    ranks = []
    for rows in text.q:
        own = np.take_along_axis(rows, tokens, 1)
        before = (rows > own) | ((rows == own) & (np.arange(rows.shape[1]) < tokens))
        ranks.append(np.where(own[:, 0] > 0, before.sum(1), -1))
    return np.array(ranks)


def _contexts(replays: Replays, tree: Tree, verifier: Verifier, rule: DrawRule) -> Iterator[ContextGroup]:
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
        half = ratio_half_width(emitted, begun, LEVEL) if clusters(begun) > 1 else None
        yield ContextGroup(
            float(held.min()),
            float(held.max()),
            len(held) / len(every),
            float(begun.sum() / cycles),
            float(tau),
            *((None, None) if half is None else (float(tau - half), float(tau + half))),
        )


def _recent(kept: np.ndarray) -> np.ndarray:
    """(n,) mean of `kept` over the `RECENT` positions before each, or as many as there are; 0.5 at the first one."""
    total = np.append(0, np.minimum(kept, 1).cumsum())
    places = np.arange(len(kept))
    first = np.maximum(places - RECENT, 0)
    return np.where(places > 0, (total[places] - total[first]) / np.maximum(places - first, 1), 0.5)


def _ratio(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """The quotients, NaN where the denominator is 0."""
    known = denominators > 0
    return np.where(known, numerators / np.where(known, denominators, 1), np.nan)
