"""`RequestClasses`, easy and hard contexts instead of one table of rates, from an engine's counts by depth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from spectheory.core.acceptance import MIN_TRIALS, ROUNDING, Acceptance, depths_with_enough
from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.yields.class_fitting import RATES, ClassCounts, fitted_classes, survival
from spectheory.yields.path_products import _reach

ASSUMED = "tau is predicted for classes of contexts that last for several cycles, fitted to the counts by depth"


@dataclass(frozen=True, eq=False, repr=False)
class RequestClasses(Record):
    """Classes of contexts, from easy to hard, each with acceptance rates of its own, fitted to counts by depth.

    A table of rates has three faults: it repeats its last row although rates rise with depth, because easy contexts
    survive; it multiplies rates although easy and hard contexts come in runs; and its rates hold only for the tree that
    was run, because longer drafts need fewer cycles for easy text, so that more of the cycles start in hard text.
    Classes describe all three. **A class has a share of the tokens, not of the cycles.** In class c a tree needs
    1 / tau_c cycles per token, and all classes together shares @ (1 / tau_c), so that

        tau = 1 / sum_c shares[c] / tau_c(tree).

    In class c the child of rank 0 at depth d is accepted with probability rates[c] * falls[d]; where it is not, another
    rank r is accepted with probability later[d, r - 1], in every class.

    *What is assumed.* Contexts keep their class for much longer than a cycle; within a class, cycles and depths are
    independent. Below the counted depths rates change only because easy classes survive: a draft that gets worse beyond
    the depth that was run, as heads do beyond the depth for which they were trained, is not foreseen. A longer chain
    keeps what a shorter one keeps, as greedy and top-down verifiers do; Block keeps tokens for the sake of later ones.

    *What is known.* K depths give K numbers, so that several mixtures agree with them. `block_efficiency_interval`
    covers all of them and the uncertainty of the counts. `falls` and the spread of the classes can replace each other;
    the largest falls that are likely are taken.

    Make it with `from_histogram` or `from_acceptance`.

    Attributes:
        shares: share of the tokens in each class.
        rates: rate of rank 0 at depth 0 in each class.
        falls: factor on the rates at each depth, non-increasing from 1. The last one holds for deeper nodes too.
        later: probability that a child of rank 1, 2, ... is accepted, given that the child of rank 0 is not.
        any_rank: whether the counts are of children of all ranks together. False: of rank 0 only.
        counted: the tree whose cycles were counted; None if every position was counted.
        low, high: limits of the share of cycles, over all classes, that accept at least 1..D tokens. They hold for
            all depths at once.
        level: the confidence level of these limits.

    Raises:
        InputError: the shapes disagree, or a value is out of range.
    """

    kind: ClassVar[str] = "request_classes"

    shares: Float[np.ndarray, " classes"]
    rates: Float[np.ndarray, " classes"]
    falls: Float[np.ndarray, " depths"]
    later: Float[np.ndarray, "depths later_ranks"]
    any_rank: bool
    counted: Tree | None
    low: Float[np.ndarray, " depths"]
    high: Float[np.ndarray, " depths"]
    level: float = 0.95
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        for name in ("shares", "rates", "falls", "later", "low", "high"):
            values = np.asarray(getattr(self, name), np.float64)
            if not ((values >= 0) & (values <= 1 + ROUNDING)).all():  # NaN as well
                raise InputError(f"{name} must be between 0 and 1, got {values.tolist()!s:.80}")
            object.__setattr__(self, name, values)
        classes, depths = len(self.shares), len(self.falls)
        if self.shares.shape != (classes,) or self.rates.shape != (classes,) or abs(self.shares.sum() - 1) > ROUNDING:
            raise InputError(
                f"shares must sum to 1, one for each of rates, got {self.shares.tolist()!s:.60} for "
                f"{self.rates.tolist()!s:.60}"
            )
        shapes = [getattr(self, name).shape for name in ("falls", "low", "high")]
        if not depths or set(shapes) != {(depths,)} or self.later.ndim != 2 or len(self.later) != depths:
            raise InputError(
                f"falls, low and high must have one entry for each depth, and later one row for each depth, got "
                f"shapes {shapes} and {self.later.shape}"
            )
        if self.falls[0] != 1 or (np.diff(self.falls) > 0).any():
            raise InputError(f"falls must be 1 first and non-increasing, got {self.falls.tolist()!s:.80}")
        if (self.low > self.high).any() or (self.later.sum(1) > 1 + ROUNDING).any():
            raise InputError("low must be at most high, and each row of later must sum to at most 1")
        if not 0 < self.level < 1:
            raise InputError(f"level must be between 0 and 1, got {self.level}")

    @classmethod
    def from_histogram(
        cls,
        accepted: np.ndarray,
        *,
        min_trials: int = MIN_TRIALS,
        level: float = 0.95,
        provenance: Provenance = UNKNOWN,
    ) -> Self:
        """Classes from the cycles of a chain of K drafted tokens that kept exactly 0..K of them.

        Args:
            accepted: (K + 1,) number of cycles; or (requests, K + 1), by request. Counts by request change
                only the limits, not the classes: cycles of one request are then not taken as independent.
            min_trials: depths with fewer trials are left out.
            level: confidence level of the limits.
            provenance: where the counts come from.

        Raises:
            InputError: the counts are not whole numbers >= 0 of one of these shapes.
            NoClassesError: fewer than 2 depths have `min_trials` trials, or no mixture agrees with the counts.
        """
        given = np.asarray(accepted)
        if given.ndim not in (1, 2) or given.dtype.kind not in "iu" or (given < 0).any() or given.shape[-1] < 2:
            raise InputError(
                "accepted must be counts >= 0 of cycles that kept 0..K tokens, of shape (K + 1,) or (requests, K + 1) "
                f"with K >= 1, got {given.tolist()!s:.80}"
            )
        rows = given.reshape(-1, given.shape[-1]).astype(np.int64)
        rows = rows[rows.any(1)]
        reached = rows[:, ::-1].cumsum(1)[:, ::-1]
        hits, trials = reached[:, 1:], reached[:, :-1]
        kept = depths_with_enough(trials.sum(0), min_trials)
        counts = ClassCounts(hits[:, :kept], trials[:, :kept], np.zeros(kept))
        return cls._fitted(counts, np.zeros((kept, 0)), Tree.chain(rows.shape[1] - 1), level, provenance)

    @classmethod
    def from_acceptance(cls, acceptance: Acceptance, counted: Tree | None = None, *, level: float = 0.95) -> Self:
        """Classes from measured rates, which have counts by depth.

        Args:
            acceptance: rates with counts. Later ranks share what rank 0 misses in every class as they do in the table.
            counted: the tree whose cycles were counted; None means `acceptance.cycles_of`.
            level: confidence level of the limits.

        Raises:
            InputError: the rates have no counts, or more nodes were reached at a depth than accepted before it.
            NoClassesError: fewer than 2 depths are counted, or no mixture agrees with the counts.
        """
        if acceptance.hits is None or acceptance.trials is None:
            raise InputError("acceptance must have counts to fit classes: make it with from_counts, or measure it")
        hits, trials = acceptance.hits.sum(1)[None], acceptance.trials[None]
        if (trials[:, 1:] > hits[:, :-1]).any():
            depth = int((trials[0, 1:] > hits[0, :-1]).argmax()) + 1
            raise InputError(
                f"trials[{depth}] of acceptance is {trials[0, depth]:,}, but only {hits[0, depth - 1]:,} nodes were "
                f"accepted at depth {depth}: give counts of cycles, each of which tries the depths one after another"
            )
        later, counted = _later(acceptance), counted or acceptance.cycles_of
        return cls._fitted(ClassCounts(hits, trials, later.sum(1)), later, counted, level, acceptance.provenance)

    @classmethod
    def _fitted(
        cls, counts: ClassCounts, later: np.ndarray, counted: Tree | None, level: float, provenance: Provenance
    ) -> Self:
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1, got {level}")
        found = fitted_classes(counts, level)
        low, high = counts.limits(level)
        off = found.survival - counts.survival
        classes = cls(
            found.weights,
            found.rates,
            found.falls,
            later,
            bool(counts.others.any()),
            counted,
            np.minimum(low, low + off).clip(0, 1),
            np.maximum(high, high + off).clip(0, 1),
            level,
            provenance.assuming(ASSUMED),
        )
        if counted is None:
            return classes
        tokens = found.weights * classes.by_class(counted)
        return replace(classes, shares=tokens / tokens.sum())

    @property
    def summary(self) -> str:
        """Each class with its share of the tokens and its rate."""
        classes = ", ".join(
            f"{share:.0%} of the tokens at rate {rate:.3f}" for share, rate in zip(self.shares, self.rates, strict=True)
        )
        falls = "" if self.falls[-1] == 1 else f"; rates fall with depth to {self.falls[-1]:.2f} of these"
        return f"{len(self.shares)} class{'es' * (len(self.shares) > 1)}: {classes}{falls}"

    @property
    def acceptances(self) -> tuple[Acceptance, ...]:
        """The acceptance rates of each class."""
        return tuple(Acceptance(table) for table in self._tables(self.rates))

    def with_ranks(self, acceptance: Acceptance) -> Self:
        """These classes with the later ranks of other rates of the same pair: counts of chains know rank 0 only.

        In every class they share what rank 0 misses as they do in `acceptance`.

        Raises:
            InputError: the classes were fitted to counts of all ranks.
        """
        if self.any_rank:
            raise InputError("with_ranks is for classes of chains, these were fitted to counts of all ranks already")
        later = _later(acceptance)
        return replace(self, later=later[np.minimum(np.arange(len(self.falls)), len(later) - 1)])

    def reach_by_class(self, tree: Tree) -> Float[np.ndarray, "classes nodes"]:
        """Probability in each class that a cycle accepts each node."""
        return _reach(tree, self._tables(self.rates))

    def by_class(self, tree: Tree) -> Float[np.ndarray, " classes"]:
        """Tokens per target call in each class."""
        return self.reach_by_class(tree).sum(-1)

    def reach(self, tree: Tree) -> Float[np.ndarray, " nodes"]:
        """Probability that a cycle accepts each node, over the cycles of all classes."""
        reached = self.reach_by_class(tree)
        cycles = self.shares / reached.sum(-1)
        return cycles @ reached / cycles.sum()

    def block_efficiency(self, tree: Tree) -> float:
        """E[tau], the expected tokens per target call, over all classes: the harmonic mean weighted by tokens."""
        return float(1 / (self.shares / self.by_class(tree)).sum())

    def block_efficiency_interval(self, tree: Tree) -> tuple[float, float]:
        """The smallest and the largest tau of all mixtures whose shares of cycles by depth are within the limits.

        It covers the uncertainty of the counts at `level`, and that several mixtures agree with the same counts. It
        does not cover the assumptions of the class, nor the uncertainty of `falls` and `later`.

        Each end is a linear program over the token shares of all rates that a class may have.
        """
        from scipy.optimize import linprog

        tables = self._tables(RATES)
        others = self.later.sum(1) if self.any_rank else np.zeros(len(self.falls))
        reached = survival(RATES, self.falls, others)
        if self.counted is not None:
            reached = reached / _reach(self.counted, tables).sum(-1)
        above = np.vstack([reached[1:] - np.outer(self.high, reached[0]), np.outer(self.low, reached[0]) - reached[1:]])
        cycles = 1 / _reach(tree, tables).sum(-1)
        predicted, ends = self.block_efficiency(tree), []
        for sign in (1, -1):
            found = linprog(np.full(len(RATES), sign), A_ub=above, b_ub=np.zeros(len(above)), A_eq=[cycles], b_eq=[1])
            ends.append(predicted if found.x is None else float(found.x.sum()))
        return min(ends[0], predicted), max(ends[1], predicted)

    def _tables(self, rates: np.ndarray) -> Float[np.ndarray, "classes depths ranks"]:
        """Rates by depth and rank of classes with these rates."""
        first = rates[:, None, None] * self.falls[:, None]
        return np.concatenate([first, (1 - first) * self.later], axis=-1)


def _later(acceptance: Acceptance) -> Float[np.ndarray, "depths later_ranks"]:
    """Probability that a child of rank 1, 2, ... is accepted, given that the child of rank 0 is not."""
    others, missed = acceptance.table[:, 1:], 1 - acceptance.table[:, :1]
    later = np.divide(others, missed, out=np.zeros_like(others), where=missed > 0)
    return later / np.maximum(1, later.sum(1, keepdims=True))
