"""`Replays`, texts on which trees and verifiers are replayed, and `Replayed`, what one of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float, Shaped

from spectheory.core.checks import checked
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.ratios import by_source, check_sources, ratio_half_width
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.core.world import DrawPolicy
from spectheory.replay.cycle import Cycle, OneText, Text
from spectheory.replay.text import CycleChain, TargetText
from spectheory.verify import Greedy, Verifier

ROUNDING = 1e-6
"""Relative rounding error of sums of expected counts."""


@dataclass(frozen=True, eq=False, repr=False)
class Replayed(Record):
    """The cycles of one tree and verifier on R texts, or on the texts of R sources, as the replay theorem counts them.

    Attributes:
        emitted: for each text, expected tokens of the cycles that start in it.
        cycles: for each text, expected number of these cycles.
        variance: for each text, variance of the number of cycles, given the text.
        accepted: expected number of cycles in all texts together that keep 0..L drafted tokens.
        reach: share of the cycles that keep each node of a static tree, see `Replays.reach`;
            None where it was not computed.

    Where siblings are sampled, these are unbiased estimates: a single one may be negative.

    Raises:
        InputError: the shapes disagree, a number is not finite, no cycle is counted, the tokens and cycles of the texts
            are not those of `accepted`, or the reach does not sum to tau.
    """

    kind: ClassVar[str] = "replayed"
    schema: ClassVar[int] = 2
    derived: ClassVar[tuple[str, ...]] = ("tau",)

    emitted: Float[np.ndarray, " texts"]
    cycles: Float[np.ndarray, " texts"]
    variance: Float[np.ndarray, " texts"]
    accepted: Float[np.ndarray, " lengths"]
    reach: Float[np.ndarray, " nodes"] | None = None

    def __post_init__(self) -> None:
        for name in ("emitted", "cycles", "variance", "accepted", *(() if self.reach is None else ("reach",))):
            values = np.asarray(getattr(self, name), np.float64)
            if values.ndim != 1 or not np.isfinite(values).all():
                raise InputError(f"{name} must be a row of finite numbers, got {values.tolist()!s:.60}")
            object.__setattr__(self, name, values)
        if not len(self.emitted) == len(self.cycles) == len(self.variance) or not self.cycles.sum() > 0:
            raise InputError(
                f"emitted, cycles and variance must have one entry for each text, and cycles must sum to more than 0, "
                f"got {len(self.emitted)}, {len(self.cycles)}, {len(self.variance)} entries, "
                f"{self.cycles.sum():.6g} cycles"
            )
        lengths = np.arange(1, len(self.accepted) + 1)
        for name, counted in (("cycles", self.accepted.sum()), ("emitted", self.accepted @ lengths)):
            if abs((total := getattr(self, name).sum()) - counted) > ROUNDING * max(1, counted):
                raise InputError(f"the sum of {name} must be {counted:.9g}, computed from accepted, got {total:.9g}")

        if not 1 - ROUNDING <= self.tau <= len(self.accepted) + ROUNDING:
            raise InputError(f"tau must be between 1 and {len(self.accepted)}, depth + 1, got {self.tau:.6g}")
        if self.reach is not None and abs(self.reach.sum() - self.tau) > ROUNDING * self.tau:
            raise InputError(f"reach must sum to tau, {self.tau:.9g}, got {self.reach.sum():.9g}")

    @property
    def summary(self) -> str:
        """Tau and the number of texts."""
        return f"{len(self.cycles):,} texts, {self.cycles.sum():,.0f} cycles; tau {self.tau:.3f}"

    @property
    def tau(self) -> float:
        """Expected tokens per target call, over the texts."""
        return float(self.emitted.sum() / self.cycles.sum())

    def by_source(self, sources: Sequence[str]) -> Self:
        """The same cycles by the source of each text; see `Replays`."""
        emitted, cycles, variance = by_source(sources, self.emitted, self.cycles, self.variance)
        return replace(self, emitted=emitted, cycles=cycles, variance=variance)

    def tau_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of tau on other texts like these; texts or sources are independent, cycles are not.

        Raises:
            InputError: cycles were counted in one text or source only.
        """
        half = ratio_half_width(self.emitted, self.cycles, level)
        return max(1.0, self.tau - half), min(self.tau + half, float(len(self.accepted)))


class Replays:
    """Texts of the target, ready to replay any tree and verifier on them. What several have in common is computed once.

    Args:
        texts: the texts: `GreedyText` for greedy decoding, `TargetText` for sampled text.
        seed: seed of the drafts that are drawn in addition to the tokens of a text. All trees and verifiers share
            these draws.
        first: the position in each text where the first cycle starts.
        sampling: how the texts were sampled, as `Provenance.sampling` says it; empty if that is not known.
        sources: where each text is from, such as a category. Texts of one source are one cluster of the intervals;
            without sources each text is its own.

    Raises:
        InputError: there is no text, the texts are of several kinds, a setting is out of range, or there is not a
            source for each text.
    """

    @checked
    def __init__(
        self, texts: Iterable[Text], *, seed: int = 0, first: int = 1, sampling: str = "", sources: tuple[str, ...] = ()
    ) -> None:
        self.texts, self.sampling, self.sources = list(texts), sampling, sources
        check_sources(sources, len(self.texts))
        if not self.texts:
            raise InputError("texts must hold at least one text, got none")
        if len({type(text) for text in self.texts}) > 1:
            raise InputError("texts must be of one kind, such as GreedyText, got several: replay each kind on its own")
        if first < 0:
            raise InputError(f"first must be at least 0, got {first}")
        self.first = first
        self._each = [OneText(text, [seed, number]) for number, text in enumerate(self.texts)]

    @property
    def greedy(self) -> bool:
        """Whether nothing is random on these texts, as in greedy decoding."""
        return not isinstance(self.texts[0], TargetText)

    def can_replay(self, tree: Tree) -> bool:
        """Whether the texts hold what replaying a tree needs: enough ranked candidates."""
        text, fanout = self.texts[0], int(tree.rank.max()) + 1
        return isinstance(text, TargetText) or text.candidates is None or fanout <= text.candidates

    @property
    def deepest(self) -> int:
        """Depth of the deepest tree that can be replayed: a whole cycle fits into the longest text."""
        return max(map(len, self.texts)) - self.first - 1

    def kept(self, shape: Tree | DrawPolicy, verifier: Verifier, rule: DrawRule | None = None) -> list[np.ndarray]:
        """For each text (n, L + 1): the chance that a cycle from each position keeps at least 0..L drafted tokens.

        Raises:
            InputError: see `replay`.
        """
        return self._of_each(Cycle.kept, shape, verifier, rule)

    def passed(self, tree: Tree, verifier: Verifier, rule: DrawRule | None = None) -> list[np.ndarray]:
        """For each text (n, budget + 1): the chance that a cycle from each position keeps each node of a static tree.

        Raises:
            InputError: see `replay`.
        """
        return self._of_each(Cycle.passed, tree, verifier, rule)

    def reach(self, tree: Tree, verifier: Verifier, rule: DrawRule | None = None) -> Shaped[np.ndarray, " nodes"]:
        """The share of the cycles that keep each node of a static tree.

        The cycles are those that `replay` counts, and so the shares of all nodes sum to tau. Where siblings are sampled
        the shares are unbiased up to the number of cycles that they are divided by, and single ones may be above 1.

        Raises:
            InputError: see `replay`.
        """
        kept, cycles = np.zeros(tree.budget + 1), 0.0
        starts = self.starts(tree, verifier, rule)
        for passed, started in zip(self.passed(tree, verifier, rule), starts, strict=True):
            kept += started @ passed[: len(started)]
            cycles += started.sum()
        return kept / cycles

    def _of_each(
        self,
        chances: Callable[[Cycle, OneText], np.ndarray],
        shape: Tree | DrawPolicy,
        verifier: Verifier,
        rule: DrawRule | None,
        **better: Any,
    ) -> list[np.ndarray]:
        """Chances of one cycle on each text; `better` are attributes of a `Cycle` with another draft."""
        if isinstance(shape, Tree) and shape.budget == 0:
            return [np.ones((len(text), 1)) for text in self.texts]
        if isinstance(verifier, Greedy) != self.greedy:
            wanted = "TargetText" if self.greedy else "GreedyText"
            raise InputError(f"texts for {verifier} must be {wanted}, got {type(self.texts[0]).__name__}")
        cycle = Cycle(shape, verifier, None if self.greedy else rule, **better)
        return [chances(cycle, one) for one in self._each]

    def _most_tokens(self, kept: list[np.ndarray]) -> int:
        """The most tokens of a cycle. Raises InputError if they do not fit into any text."""
        deepest = max(rows.shape[1] for rows in kept)
        if (longest := max(map(len, self.texts))) < self.first + deepest:
            raise InputError(
                f"texts must have at least {self.first} + {deepest} tokens for a cycle of this shape, the longest has "
                f"{longest}: record more tokens per prompt, or replay a shallower tree"
            )
        return deepest

    def replay(
        self,
        shape: Tree | DrawPolicy,
        verifier: Verifier,
        rule: DrawRule | None = None,
        *,
        perfect: int | None = None,
        closer: float = 0.0,
    ) -> Replayed:
        """The cycles of a decoder that drafts `shape` and verifies with `verifier`, over all texts.

        A cycle counts if it starts where the text still holds a whole one, L + 1 tokens before its end.

        Args:
            shape: a static tree, or a draw policy.
            verifier: a verifier of this package, or `TopDown` of any solver.
            rule: how children of a tree are drawn; a policy has its own, and greedy decoding draws nothing.
            perfect: depth at which the draft never misses, see `Cycle`; None for the recorded draft.
            closer: how much closer to the target the draft is than the recorded one, see `Cycle`.

        Raises:
            InputError: the verifier is not lossless for the rule or the shape, cannot be replayed, does not suit the
                kind of text, or the texts are too short for the depth of the shape; or `perfect` or `closer` is out of
                range.
        """
        kept = self._of_each(Cycle.kept, shape, verifier, rule, perfect=perfect, closer=closer)
        deepest = self._most_tokens(kept)
        counted = [_counted(CycleChain(rows, self.first), deepest) for rows in kept]
        emitted, cycles, variance, accepted = zip(*counted, strict=True)
        found = Replayed(np.array(emitted), np.array(cycles), np.array(variance), np.sum(accepted, 0))
        return found.by_source(self.sources)

    def starts(self, shape: Tree | DrawPolicy, verifier: Verifier, rule: DrawRule | None = None) -> list[np.ndarray]:
        """For each text: the probability that a cycle starts at each position, of the cycles that `replay` counts.

        Raises:
            InputError: see `replay`.
        """
        kept = self.kept(shape, verifier, rule)
        deepest = self._most_tokens(kept)
        return [_whole(CycleChain(rows, self.first), deepest).starts for rows in kept]


def _whole(chain: CycleChain, deepest: int) -> CycleChain:
    """The chain of the cycles that fit into a text whole, `deepest` tokens each."""
    return CycleChain(chain.kept[: max(0, len(chain.kept) - deepest + 1)], chain.first)


def _counted(chain: CycleChain, deepest: int) -> tuple[float, float, float, np.ndarray]:
    """Tokens, cycles, their variance, and the accepted histogram of the cycles that fit into one text."""
    counted = _whole(chain, deepest)
    accepted = np.zeros(deepest)
    accepted[: chain.kept.shape[1]] = np.einsum("i,ij->j", counted.starts, counted.ends)
    at = min(chain.first, len(counted.kept))
    emitted = float(accepted @ np.arange(1, deepest + 1))
    return emitted, float(counted.expected_cycles[at]), float(counted.cycle_variance[at]), accepted
