"""`Acceptance`, the acceptance rates: for each depth and rank, the probability that such a child is accepted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, final

import numpy as np
from jaxtyping import Float, Float64, Int, Int64, Real

from spectheory.core.checks import check_array, check_number, check_types
from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.ratios import share_limits
from spectheory.core.record import Record
from spectheory.core.tree import Tree

ROUNDING = 1e-9
"""The sum of a row of rates may be above 1 by this much, because of rounding."""

MIN_TRIALS = 100
"""Default number of trials that a depth needs. Deeper rows of the table are left out."""
LEAST_SHARE = 1e-3
"""The smallest share of steps that draft which is accepted."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Acceptance(Record):
    """Acceptance rates by depth and rank. Measured rates carry the counts from which they were computed.

    `table[d, r]` is the probability that the child of rank r of a node at depth d is accepted, given that the node
    itself is accepted. The last row also holds for all deeper nodes. Ranks beyond the table have rate 0. At most one
    child of a node is accepted, so a row sums to at most 1. Make an Acceptance with `by_rank`, `by_depth_and_rank` or
    `from_counts`.

    Attributes:
        table: the rates. Where there are counts, it is hits / trials, and what was given is ignored, unless the
            provenance says that it is smoothed.
        hits: how often the child of rank r of a node at depth d was accepted; None if nothing was counted.
        trials: how often a node at depth d was accepted, so that one of its children could be; None as `hits`.
        cycles_of: the tree whose cycles were counted, such as the chain that an engine ran; None if every position of
            a text was counted, or if nothing was.
        drafted_share: the share of all steps that drafted, if the rates hold for these steps alone; None if they hold
            for all steps. Where no n-gram matches, a step drafts nothing.
    """

    kind: ClassVar[str] = "acceptance"
    schema: ClassVar[int] = 4

    table: Float64[np.ndarray, "depths ranks"]
    hits: Int64[np.ndarray, "depths ranks"] | None = None
    trials: Int64[np.ndarray, " depths"] | None = None
    provenance: Provenance = UNKNOWN
    cycles_of: Tree | None = None
    drafted_share: float | None = field(default=None, metadata={"optional": True})

    def __post_init__(self) -> None:
        check_types(Acceptance, vars(self))
        check_number("drafted_share", 1 if self.drafted_share is None else self.drafted_share, LEAST_SHARE, 1)
        table = check_array("table", self.table)
        if table.dtype.kind not in "iuf":
            raise InputError(f"table must be numbers, got {table.dtype}")
        table = table.astype(np.float64)
        if table.ndim != 2 or table.size == 0:
            raise InputError(f"table must have shape (depths, ranks), both at least 1, got shape {table.shape}")
        for d, row in enumerate(table):
            bad = ~(row >= 0)  # NaN as well
            if bad.any():
                r = int(bad.argmax())
                raise InputError(f"table[{d}, {r}] must be a probability, got {row[r]}")
            if row.sum() > 1 + ROUNDING:
                raise InputError(
                    f"table[{d}] must sum to at most 1 (at most one child of a node is accepted), got {row.sum():.6g}"
                )
        if (self.hits is None) != (self.trials is None):
            raise InputError("hits and trials must be given together")
        if self.hits is not None and self.trials is not None:
            hits, trials = _counts(self.hits, self.trials)
            if hits.shape != table.shape:
                raise InputError(f"hits must have the shape of the table, {table.shape}, got {hits.shape}")
            if not self.provenance.smoothed:
                table = hits / np.maximum(trials, 1)[:, None]
            object.__setattr__(self, "hits", hits)
            object.__setattr__(self, "trials", trials)
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    @classmethod
    def by_rank(cls, rates: Sequence[float] | Real[np.ndarray, " ranks"]) -> Self:
        """The same rates at every depth, as in Sequoia's positional acceptance."""
        row = check_array("rates", rates, np.float64)
        if row.ndim != 1:
            raise InputError(f"rates must have shape (ranks,), got shape {row.shape}")
        return cls(row[None, :])

    @classmethod
    def by_depth_and_rank(cls, table: Sequence[Sequence[float]] | Real[np.ndarray, "depths ranks"]) -> Self:
        """Row d has the rates of children at depth d + 1. The last row also holds for deeper children."""
        return cls(check_array("table", table, np.float64))

    @classmethod
    def from_counts(
        cls,
        hits: Int[np.ndarray, "depths ranks"],
        trials: Int[np.ndarray, " depths"],
        provenance: Provenance = UNKNOWN,
        *,
        min_trials: int = MIN_TRIALS,
        cycles_of: Tree | None = None,
    ) -> Self:
        """Measured rates, hits / trials.

        The table ends before the first depth that has fewer than `min_trials` trials. Its last row also holds for the
        depths that were left out. `cycles_of` is the tree whose cycles were counted. Raises InputError if no depth has
        enough trials.
        """
        hits, trials = _counts(hits, trials)
        few = trials < min_trials
        kept = int(few.argmax()) if few.any() else len(trials)
        if kept == 0:
            found = trials[0] if len(trials) else 0
            raise InputError(f"trials[0] is {found}, fewer than min_trials={min_trials}: record more, or lower it")
        return cls(hits[:kept] / trials[:kept, None], hits[:kept], trials[:kept], provenance, cycles_of)

    @classmethod
    def from_ranks(
        cls,
        texts: Iterable[Int[np.ndarray, "*depths n"]],
        *,
        ranks: int,
        max_depth: int = 16,
        min_trials: int = MIN_TRIALS,
        provenance: Provenance = UNKNOWN,
    ) -> Self:
        """Rates counted on texts of the target, from the rank that the draft gives to each token.

        Args:
            texts: for each text, an array with the rank of each token among the draft's candidates; -1 if the token is
                not among them. Its shape is (n,), or (depths, n) for a draft whose candidates depend on how deep in the
                cycle it drafts them; the last row holds for deeper nodes too.
            ranks: number of candidates, R.
            max_depth: maximum number of rows of the table.
            min_trials: see `from_counts`.
            provenance: where the texts come from.

        The token that is d positions after a start counts for depth d if all tokens before it, from the start on, were
        among the draft's candidates: a tree that is drafted at the start can then reach depth d.

        A cycle starts after the previous one ends, often just after a token that the draft missed. Text after a miss is
        harder to draft than average, so rates from all positions predict too high a tau, and `Replays` the right one.
        """
        hits, trials = np.zeros((max_depth, ranks), np.int64), np.zeros(max_depth, np.int64)
        for text in texts:
            rows = np.atleast_2d(np.asarray(text, np.int64))
            starts = np.arange(rows.shape[1])
            for depth in range(max_depth):
                starts = starts[starts + depth < rows.shape[1]]
                reached = rows[min(depth, len(rows) - 1), starts + depth]
                starts = starts[reached >= 0]
                trials[depth] += len(reached)
                hits[depth] += np.bincount(reached[reached >= 0], minlength=ranks)[:ranks]
        return cls.from_counts(hits, trials, provenance, min_trials=min_trials)

    @property
    def summary(self) -> str:
        """One line: the size of the table, the rates at the root, and the number of trials at the root."""
        rates = ", ".join(f"{rate:.1%}" for rate in self.table[0, :6])
        visits = "" if self.trials is None else f"; {self.trials[0]:,} visits of the root"
        size = f"{self.depths} depths x {self.ranks} ranks"
        return f"{size}; at the root {rates}{', ...' if self.ranks > 6 else ''}{visits}"

    @property
    def depths(self) -> int:
        """Number of rows of the table."""
        return self.table.shape[0]

    @property
    def ranks(self) -> int:
        """Number of columns of the table. Children of a higher rank have rate 0."""
        return self.table.shape[1]

    @property
    def is_non_increasing(self) -> bool:
        """Whether the rates of every row are non-increasing in rank. Best-first search is then exact."""
        return bool((np.diff(self.table, axis=1) <= 0).all())

    @property
    def of_all_steps(self) -> Self:
        """The rates of all steps, of which only `drafted_share` drafted: fewer keep a first token."""
        if (share := self.drafted_share) is None:
            return self
        trials, deeper = self.trials, self.table[min(1, self.depths - 1) if self.hits is None else 1 :]
        if trials is not None:
            trials = np.append(round(trials[0] / share), trials[1:])
        return replace(self, table=np.vstack([self.table[:1] * share, deeper]), trials=trials, drafted_share=None)

    def row(self, depth: int) -> Float[np.ndarray, " ranks"]:
        """Rates of the children of a node at `depth`."""
        return self.table[min(depth, self.depths - 1)]

    def smoothed(self) -> Self:
        """The nearest rates that are non-increasing in rank (least squares, row by row).

        The sum of each row, the probability that any child is accepted, does not change. Counts are kept as measured.
        """
        from scipy.optimize import isotonic_regression

        rows = [isotonic_regression(row, increasing=False).x for row in self.table]
        stamp = self.provenance.replace(smoothed=True)
        said = [] if self.is_non_increasing else ["rates are smoothed to be non-increasing in rank"]
        return replace(self, table=np.array(rows), provenance=stamp.assuming(*said))

    def interval(
        self, level: float = 0.95
    ) -> tuple[Float[np.ndarray, "depths ranks"], Float[np.ndarray, "depths ranks"]]:
        """Lower and upper Clopper-Pearson limits of each rate, for independent positions.

        Raises:
            InputError: the rates have no counts.
        """
        if self.hits is None or self.trials is None:
            raise InputError("interval needs counts: make the Acceptance with from_counts, or measure it")
        return share_limits(self.hits, self.trials[:, None] - self.hits, level)


def _counts(hits: np.ndarray, trials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hits, trials = np.asarray(hits), np.asarray(trials)
    if hits.dtype.kind not in "iu" or trials.dtype.kind not in "iu":
        raise InputError(f"hits and trials must be whole numbers, got {hits.dtype} and {trials.dtype}")
    if hits.ndim != 2 or trials.shape != hits.shape[:1]:
        raise InputError(f"hits and trials must have shapes (D, R) and (D,), got {hits.shape} and {trials.shape}")
    if (hits < 0).any() or (hits.sum(1) > trials).any():
        raise InputError("hits must be counts >= 0 that sum to at most trials in each row")
    return hits.astype(np.int64), trials.astype(np.int64)
