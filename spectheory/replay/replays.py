"""`Replays`, texts on which trees and verifiers are replayed, and `Replayed`, what one of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.ratios import ratio_half_width
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.core.world import DrawPolicy, Levels, Paths
from spectheory.otlp import NSS, RRS, Naive, Solver
from spectheory.replay.chains import best_path_ratios, chain_ratios, kept_by_ratio
from spectheory.replay.cycles import CycleChain
from spectheory.replay.greedy import ChainText, GreedyText, kept_greedily, kept_of_chain
from spectheory.replay.shape import Shape, shape_of
from spectheory.replay.text import TargetText
from spectheory.replay.top_down import Edges, edges, kept_top_down
from spectheory.replay.traversal import kept_by_traversal
from spectheory.verify import Block, Greedy, GreedyMultiPathBlock, TopDown, Traversal, TreeMonteCarlo, Verifier

Text = TargetText | GreedyText | ChainText
"""What can be replayed."""
ROUNDING = 1e-6
"""Relative rounding error of sums of expected counts."""


@dataclass(frozen=True, eq=False, repr=False)
class Replayed(Record):
    """The cycles of one tree and verifier on R texts, as the replay theorem counts them.

    Attributes:
        emitted: (R,) float64, expected tokens of the cycles that start in each text.
        cycles: (R,) float64, expected number of these cycles.
        variance: (R,) float64, variance of that number, given the text.
        accepted: (L + 1,) float64, expected number of cycles that keep 0..L drafted tokens.

    Where siblings are sampled these are unbiased estimates, of which single ones may be negative.

    Raises:
        InputError: the shapes disagree, a number is not finite, no cycle is counted, or the tokens and
            cycles of the texts are not those of `accepted`.
    """

    kind: ClassVar[str] = "replayed"
    derived: ClassVar[tuple[str, ...]] = ("tau",)
    repair: ClassVar[str] = "plan again with the trace"

    emitted: np.ndarray
    cycles: np.ndarray
    variance: np.ndarray
    accepted: np.ndarray

    def __post_init__(self) -> None:
        for name in ("emitted", "cycles", "variance", "accepted"):
            values = np.asarray(getattr(self, name), np.float64)
            if values.ndim != 1 or not np.isfinite(values).all():
                raise InputError(f"{name} must be a row of finite numbers, got {values.tolist()!s:.60}")
            object.__setattr__(self, name, values)
        if not len(self.emitted) == len(self.cycles) == len(self.variance) or not self.cycles.sum() > 0:
            raise InputError(
                f"emitted, cycles and variance must have one entry for each text and at least one cycle in all, got "
                f"{len(self.emitted)}, {len(self.cycles)}, {len(self.variance)} entries, {self.cycles.sum():.6g} cycles"
            )
        lengths = np.arange(1, len(self.accepted) + 1)
        for name, counted in (("cycles", self.accepted.sum()), ("emitted", self.accepted @ lengths)):
            if abs((total := getattr(self, name).sum()) - counted) > ROUNDING * max(1, counted):
                raise InputError(f"the sum of {name} must be {counted:.9g}, computed from accepted, got {total:.9g}")

        if not 1 - ROUNDING <= self.tau <= len(self.accepted) + ROUNDING:
            raise InputError(
                f"tau must be between 1 and {len(self.accepted)}, one more than the depth, got {self.tau:.6g}"
            )

    @property
    def summary(self) -> str:
        """Tau and the number of texts."""
        return f"{len(self.cycles):,} texts, {self.cycles.sum():,.0f} cycles; tau {self.tau:.3f}"

    @property
    def tau(self) -> float:
        """Expected tokens per target call, over the texts."""
        return float(self.emitted.sum() / self.cycles.sum())

    def tau_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of tau on other texts like these; texts count as independent, cycles do not.

        Raises:
            InputError: cycles were counted in one text only.
        """
        half = ratio_half_width(self.emitted, self.cycles, level)
        return max(1.0, self.tau - half), min(self.tau + half, float(len(self.accepted)))


class Replays:
    """Texts of the target, ready to replay any tree and verifier on them. What several have in common is computed once.

    Args:
        texts: the texts: `GreedyText` for greedy decoding, `TargetText` for sampled text, `ChainText` where only the
            accepted lengths of a chain are known.
        seed: of the drafts that are drawn beside the tokens of a text. All trees and verifiers share these draws.
        samples: number of such draws over which a chance is averaged. One is unbiased.
        first: the position in each text where the first cycle starts.

    Raises:
        InputError: there is no text, the texts are of several kinds, or a setting is out of range.
    """

    def __init__(self, texts: Iterable[Text], *, seed: int = 0, samples: int = 1, first: int = 1) -> None:
        self.texts = list(texts)
        if not self.texts:
            raise InputError("texts must hold at least one text, got none")
        if len({type(text) for text in self.texts}) > 1:
            raise InputError("texts must be of one kind, such as GreedyText, got several: replay each kind on its own")
        if samples < 1 or first < 0:
            raise InputError(f"samples must be at least 1 and first at least 0, got {samples} and {first}")
        self.first = first
        self._each = [_OneText(text, [seed, number], samples) for number, text in enumerate(self.texts)]

    @property
    def greedy(self) -> bool:
        """Whether nothing is left to chance on these texts, as in greedy decoding."""
        return not isinstance(self.texts[0], TargetText)

    @property
    def recorded(self) -> bool:
        """Whether the verifier is that of the record, as in texts of which only accepted lengths are known."""
        return isinstance(self.texts[0], ChainText)

    def can_replay(self, tree: Tree) -> bool:
        """Whether the texts hold what replaying a tree needs: enough ranked candidates, or a recorded chain as long."""
        text, fanout = self.texts[0], int(tree.rank.max()) + 1
        if isinstance(text, ChainText):
            return tree.is_chain and tree.budget <= text.longest
        return isinstance(text, TargetText) or text.candidates is None or fanout <= text.candidates

    @property
    def deepest(self) -> int:
        """Depth of the deepest tree that can be replayed: a whole cycle must fit into the longest text."""
        return max(map(len, self.texts)) - self.first - 1

    def kept(self, shape: Tree | DrawPolicy, verifier: Verifier, rule: DrawRule | None = None) -> list[np.ndarray]:
        """For each text (n, L + 1): the chance that a cycle from each position keeps at least 0..L drafted tokens.

        Raises:
            InputError: see `replay`.
        """
        if isinstance(shape, Tree) and shape.budget == 0:
            return [np.ones((len(text), 1)) for text in self.texts]
        kernel = _kernel(self.texts[0], shape, verifier, rule)
        return [kernel(one) for one in self._each]

    def replay(self, shape: Tree | DrawPolicy, verifier: Verifier, rule: DrawRule | None = None) -> Replayed:
        """The cycles of a decoder that drafts `shape` and verifies with `verifier`, over all texts.

        A cycle counts if it starts where the text still holds a whole one, L + 1 tokens before its end.

        Args:
            shape: a static tree, or a draw policy.
            verifier: a verifier of this package, or `TopDown` of any solver. `Greedy` stands for the recorded verifier
                of a `ChainText`.
            rule: how children of a tree are drawn; a policy has its own, and greedy decoding draws nothing.

        Raises:
            InputError: the verifier is not lossless for the rule or the shape, cannot be replayed, does not suit the
                kind of text, or the texts are too short for the depth of the shape.
        """
        kept = self.kept(shape, verifier, rule)
        deepest = max(rows.shape[1] for rows in kept)
        if (longest := max(map(len, self.texts))) < self.first + deepest:
            raise InputError(
                f"texts must be longer than a cycle, {self.first} + {deepest} tokens for this shape, the longest has "
                f"{longest}: record more tokens per prompt, or replay a tree that is less deep"
            )
        counted = [_counted(CycleChain(rows, self.first), deepest) for rows in kept]
        emitted, cycles, variance, accepted = zip(*counted, strict=True)
        return Replayed(np.array(emitted), np.array(cycles), np.array(variance), np.sum(accepted, 0))


def _counted(chain: CycleChain, deepest: int) -> tuple[float, float, float, np.ndarray]:
    """Tokens, cycles, their variance, and the accepted histogram of the cycles that fit into one text."""
    whole = max(0, len(chain.kept) - deepest + 1)
    counted = CycleChain(chain.kept[:whole], chain.first)
    starts = counted.starts
    accepted = np.zeros(deepest)
    accepted[: chain.kept.shape[1]] = np.einsum("i,ij->j", starts, counted.ends)
    at = min(chain.first, whole)
    emitted = float(accepted @ np.arange(1, deepest + 1))
    return emitted, float(counted.expected_cycles[at]), float(counted.cycle_variance[at]), accepted


class _OneText:
    """A text, its draws, and the edges that were computed on it."""

    def __init__(self, text: Text, seed: list[int], samples: int) -> None:
        self.text: Any = text
        self.seed, self.samples = seed, samples
        self.edges = cache(self._edges)
        self.siblings = cache(self._siblings)

    @property
    def rng(self) -> np.random.Generator:
        """The stream of one number of drafts."""
        return np.random.default_rng([*self.seed, 1])

    def _siblings(self) -> list[Any]:
        from spectheory.replay.siblings import Siblings

        return [Siblings(self.text, [*self.seed, 0, sample]) for sample in range(self.samples)]

    def _edges(self, solver: Solver, rule: DrawRule, k: int, depth: int) -> Edges:
        if (k == 1 or rule is DrawRule.NO_REPLACEMENT) and type(solver) in (NSS, Naive, RRS):
            tables = [one.edges(solver, k, depth) for one in self.siblings()]
            return {(place, 1): column for place, column in enumerate(np.mean(tables, 0).T)}
        return edges(self.text, solver, rule, k, self.rng, depth=depth, samples=self.samples)

    def edges_below(self, solver: Solver, rule: DrawRule) -> Callable[[int, int], Edges]:
        """`kept_top_down`'s callback. Depths that share a distribution share edges."""
        return lambda k, depth: self.edges(solver, rule, k, min(depth, len(self.text.q) - 1))


Kernel = Callable[[_OneText], np.ndarray]


def _kernel(text: Text, shape: Tree | DrawPolicy, verifier: Verifier, rule: DrawRule | None) -> Kernel:
    """What computes `kept` of one text.

    Raises:
        InputError: see `Replays.replay`.
    """
    if isinstance(verifier, Greedy) == isinstance(text, TargetText):
        wanted = "GreedyText or ChainText" if isinstance(verifier, Greedy) else "TargetText"
        raise InputError(f"texts for {verifier} must be {wanted}, got {type(text).__name__}")
    if isinstance(verifier, Greedy):
        if not isinstance(shape, Tree):
            raise InputError(f"greedy decoding draws nothing, got {shape.name}: give a Tree")
        return lambda one: (
            kept_of_chain(one.text, shape) if isinstance(text, ChainText) else kept_greedily(one.text, shape)
        )
    states = shape_of(shape, rule)
    if states.rule not in verifier.rules:
        named = ", ".join(rule.name for rule in verifier.rules)
        raise InputError(f"rule is {states.rule.name}, {verifier} is lossless for {named}")
    if isinstance(verifier, TopDown):
        solver = verifier.solver
        return lambda one: kept_top_down(one.text, states, one.edges_below(solver, states.rule))
    if isinstance(verifier, Traversal):
        return lambda one: _traversal(one, shape, states)
    if isinstance(verifier, Block | TreeMonteCarlo):
        length = _chain_length(shape, verifier)
        return lambda one: kept_by_ratio(chain_ratios(one.text, length))
    if isinstance(verifier, GreedyMultiPathBlock):
        paths = shape if isinstance(shape, Paths) else Paths(1, _chain_length(shape, verifier))
        return lambda one: kept_by_ratio(best_path_ratios(one.text, paths.paths, paths.length, paths.trunk))
    raise InputError(
        f"verifier {verifier} cannot be replayed: replay knows Greedy, Block, TreeMonteCarlo, Traversal, "
        "GreedyMultiPathBlock, and TopDown of any node solver"
    )


def _traversal(one: _OneText, shape: Tree | DrawPolicy, states: Shape) -> np.ndarray:
    """`kept_by_traversal`, compiled for static trees whose children are drawn without replacement."""
    if isinstance(shape, Tree) and (states.rule is DrawRule.NO_REPLACEMENT or shape.is_chain):
        return np.mean([siblings.traversal(shape) for siblings in one.siblings()], 0)
    return kept_by_traversal(one.text, states, one.rng, one.samples)


def _chain_length(shape: Tree | DrawPolicy, verifier: Verifier) -> int:
    """Number of drafted tokens of a chain; InputError for other shapes."""
    if isinstance(shape, Tree) and shape.is_chain:
        return shape.budget
    if isinstance(shape, Levels) and set(shape.counts) == {1}:
        return len(shape.counts)
    if isinstance(shape, Paths) and shape.paths == 1:
        return shape.trunk + shape.length
    raise InputError(f"{verifier} verifies {verifier.takes}, got {shape}: give a chain, or verify it with Traversal()")
