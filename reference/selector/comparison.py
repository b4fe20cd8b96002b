"""`SelectorComparison`, tokens per second of selectors, static trees and oracles on the same roots."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from spectheory import Provenance
from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN
from spectheory.core.record import Record
from spectheory.results.paired_difference import PairedDifference, Ratio, mean_half_width, paired_difference

LEVEL = 0.95
"""Level of all intervals."""


@dataclass(frozen=True, eq=False)
class PolicyRun:
    """The trees that one policy takes at the roots of P prompts. Runs of one name differ in the seed of the training.

    Attributes:
        name: name of the policy.
        tokens: (P,) sum of E[tau] over the roots of each prompt.
        seconds: (P,) sum of the seconds of a cycle at these roots.
    """

    name: str
    tokens: np.ndarray
    seconds: np.ndarray

    @property
    def throughput(self) -> Ratio:
        """Tokens per second, the ratio of the sums."""
        return Ratio(self.tokens, self.seconds)


@dataclass(frozen=True)
class PolicyRow:
    """One policy compared with the baseline, with intervals of level `LEVEL`, clustered by prompt.

    Attributes:
        name: name of the policy.
        runs: number of seeds.
        tau: mean E[tau] over the roots.
        throughput: tokens per second, the mean of the seeds.
        half: half the interval of `throughput`.
        difference: throughput divided by the throughput of the baseline, minus 1, in percent; None for the baseline.
        difference_half: half the interval of `difference`, paired by prompt; with several seeds it covers them too.
    """

    name: str
    runs: int
    tau: float
    throughput: float
    half: float
    difference: float | None
    difference_half: float | None


@dataclass(frozen=True, eq=False, repr=False)
class SelectorComparison(Record):
    """Policies that choose a tree at each root, on the same roots.

    Attributes:
        verifier: name of the verifier.
        baseline: name of the policy that the others are compared with.
        actions: number of actions.
        trees: the different trees.
        static: three static trees: the best one without a trunk and the best one, both chosen on the judged text, and
            the best one chosen on other text.
        shares: (trees,) share of the roots at which the selectors choose each tree.
        roots: (P,) number of roots of each prompt.
        prompts: (P,) hashes of the prompts, or of their sources, the clusters.
        runs: the policies.

    Raises:
        InputError: there are fewer than 2 prompts, shapes disagree, or the baseline is not one of the policies.
    """

    kind: ClassVar[str] = "selector_comparison"
    derived: ClassVar[tuple[str, ...]] = ("rows",)

    verifier: str
    baseline: str
    actions: int
    trees: tuple[str, ...]
    static: tuple[str, ...]
    shares: np.ndarray
    roots: np.ndarray
    prompts: tuple[str, ...]
    runs: tuple[PolicyRun, ...]
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        if len(self.prompts) < 2:
            raise InputError(f"prompts must be at least 2, got {len(self.prompts)}: an interval needs more than one")
        if self.baseline not in self.groups:
            raise InputError(f"baseline must be one of {', '.join(self.groups)}, got {self.baseline!r}")
        shape = (len(self.prompts),)
        for name, values in [(run.name, one) for run in self.runs for one in (run.tokens, run.seconds)]:
            if np.shape(values) != shape or not (np.isfinite(values) & (values > 0)).all():
                raise InputError(f"run {name} must have one positive sum for each of {shape[0]} prompts")
        if np.shape(self.roots) != shape or np.shape(self.shares) != (len(self.trees),):
            raise InputError("roots must be one number for each prompt, shares one for each tree")

    @property
    def summary(self) -> str:
        """The policies with their throughput."""
        found = ", ".join(f"{row.name} {row.throughput:.4g}" for row in self.rows)
        return f"tokens per second at {self.roots.sum():,} roots, {self.verifier}: {found}"

    @property
    def groups(self) -> dict[str, list[PolicyRun]]:
        """The runs of each policy by its name."""
        found: dict[str, list[PolicyRun]] = {}
        for run in self.runs:
            found.setdefault(run.name, []).append(run)
        return found

    def difference(self, name: str, other: str) -> PairedDifference:
        """By how much the throughput of policy `name` is above the throughput of `other`, paired by prompt."""
        for given in (name, other):
            if given not in self.groups:
                raise InputError(f"policy must be one of {', '.join(self.groups)}, got {given!r}")
        one, two = ([run.throughput for run in self.groups[which]] for which in (name, other))
        return paired_difference(one, two)

    @cached_property
    def rows(self) -> tuple[PolicyRow, ...]:
        """Each policy compared with the baseline."""
        return tuple(self._row(name, runs) for name, runs in self.groups.items())

    def _row(self, name: str, runs: list[PolicyRun]) -> PolicyRow:
        ratios = [run.throughput for run in runs]
        found = None if name == self.baseline else self.difference(name, self.baseline)
        return PolicyRow(
            name,
            len(runs),
            float(np.mean([run.tokens.sum() for run in runs]) / self.roots.sum()),
            float(np.mean([ratio.value for ratio in ratios])),
            mean_half_width(ratios, LEVEL),
            None if found is None else found.percent,
            None if found is None else found.half_width(LEVEL),
        )
