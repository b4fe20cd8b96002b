"""Comparison of drafts on the same texts of a target: E[tau], acceptance and calibration, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Int

from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.results.draft_run import DraftRun
from spectheory.results.paired_difference import PairedDifference, Ratio, mean_half_width, paired_difference

LEVEL, POWER = 0.95, 0.8
"""Level of all intervals, and the power of the smallest difference that is called detectable."""
IDENTITY = ("target", "temperature", "top_k", "top_p", "tree", "verifier")
"""Comparisons can only be added if they agree in these fields of their provenance."""


@dataclass(frozen=True)
class DraftRow:
    """One group of runs, compared with the baseline. All intervals are of level `LEVEL`, clustered by prompt.

    Attributes:
        group: name of the group.
        runs: number of runs, the seeds of training.
        tau: mean E[tau] of the runs, over cycles.
        tau_half: half the interval of `tau` over other prompts, for these runs.
        deviation: standard deviation of E[tau] between the runs; None for one run.
        difference: tau divided by the tau of the baseline, minus 1, in percent; None for the baseline.
        half: half the interval of `difference`, over prompts and runs.
        detectable: the smallest true difference in percent that this comparison shows with probability `POWER`.
        root_tokens: mean expected tokens of a cycle, over all roots; None for dynamic trees.
        root_difference, root_half: like `difference` and `half`, over all roots.
        same: whether the group has the same runs as the baseline, so that the difference is exactly 0.
    """

    group: str
    runs: int
    tau: float
    tau_half: float
    deviation: float | None
    difference: float | None
    half: float | None
    detectable: float | None
    root_tokens: float | None
    root_difference: float | None
    root_half: float | None
    same: bool


@dataclass(frozen=True, eq=False, repr=False)
class DraftComparison(Record):
    """Drafts on the same texts of a target, with one policy and one verifier. Comparisons on other prompts are added.

    Attributes:
        policy: what is drafted in each cycle, in words.
        verifier: name of the verifier.
        baseline: the group that the others are compared with.
        prompts: (P,) hashes of the prompts. Their texts are the clusters.
        roots: number of positions of the texts of each prompt at which a whole cycle fits.
        runs: the drafts; drafts of one group follow each other.

    Raises:
        InputError: there are fewer than 2 prompts or no runs, a prompt occurs twice, the shapes disagree, the numbers
            contradict each other, the baseline is none of the groups, or a draft occurs twice in a group or in groups
            that are not equal.
    """

    kind: ClassVar[str] = "draft_comparison"
    derived: ClassVar[tuple[str, ...]] = ("rows",)

    policy: str
    verifier: str
    baseline: str
    prompts: tuple[str, ...]
    roots: Int[np.ndarray, " prompts"]
    runs: tuple[DraftRun, ...]
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        if len(self.prompts) < 2:
            raise InputError(
                f"prompts must be at least 2, got {len(self.prompts)}: an interval over prompts needs more than one"
            )
        if len(set(self.prompts)) < len(self.prompts):
            twice = next(prompt for prompt in self.prompts if self.prompts.count(prompt) > 1)
            raise InputError(f"prompts must differ, {twice} occurs twice: texts of one prompt are one cluster")
        roots = np.asarray(self.roots)
        if roots.shape != (len(self.prompts),) or roots.dtype.kind not in "iu" or (roots < 0).any():
            raise InputError(f"roots must be one whole number of at least 0 for each prompt, got {roots!r:.60}")
        object.__setattr__(self, "roots", roots)
        for run in self.runs:
            run.check(len(self.prompts))
        check_groups({name: _weights(runs) for name, runs in self.groups.items() if runs}, self.baseline)

    @property
    def summary(self) -> str:
        """The groups with their E[tau], and the size of the comparison."""
        taus = ", ".join(f"{row.group} {row.tau:.3f}" for row in self.rows)
        return f"E[tau] at {self.roots.sum():,} roots of {len(self.prompts):,} prompts, {self.policy}: {taus}"

    @property
    def groups(self) -> dict[str, list[DraftRun]]:
        """The runs of each group, the baseline first."""
        found: dict[str, list[DraftRun]] = {self.baseline: []}
        for run in self.runs:
            found.setdefault(run.group, []).append(run)
        return found

    @cached_property
    def rows(self) -> tuple[DraftRow, ...]:
        """Each group compared with the baseline, which is the first."""
        return tuple(self._row(name, runs) for name, runs in self.groups.items())

    def difference(self, group: str, other: str, *, roots: bool = False, by_run: bool = False) -> PairedDifference:
        """By how much a group is above another one, paired by prompt.

        Args:
            group: name of a group.
            other: name of the group that it is compared with.
            roots: take the mean over all roots, not over cycles.
            by_run: run i of one group belongs to run i of the other, as trainings of one seed from one start do.

        Raises:
            InputError: there is no such group, dynamic trees have no values at all roots, or `by_run` is given for
                groups of different sizes.
        """
        known = self.groups
        for name in (group, other):
            if name not in known:
                raise InputError(f"group must be one of {', '.join(known)}, got {name!r:.60}")
        return paired_difference(*(self._ratios(known[name], roots) for name in (group, other)), by_run=by_run)

    def _ratios(self, runs: list[DraftRun], roots: bool) -> list[Ratio]:
        if not roots:
            return [Ratio(run.emitted, run.cycles) for run in runs]
        if any(run.root_tokens is None for run in runs):
            raise InputError("dynamic trees are drafted where cycles start, not at all roots: leave roots out")
        return [Ratio(np.asarray(run.root_tokens), self.roots.astype(np.float64)) for run in runs]

    def _row(self, name: str, runs: list[DraftRun]) -> DraftRow:
        by_root = None
        if all(run.root_tokens is not None for run in runs):
            by_root = float(np.mean([one.value for one in self._ratios(runs, roots=True)]))
        taus = self._ratios(runs, roots=False)
        difference, half, detectable = self._compared(name, roots=False)
        root_difference, root_half, _ = (None,) * 3 if by_root is None else self._compared(name, roots=True)
        return DraftRow(
            group=name,
            runs=len(runs),
            tau=float(np.mean([one.value for one in taus])),
            tau_half=mean_half_width(taus, LEVEL),
            deviation=float(np.std([one.value for one in taus], ddof=1)) if len(runs) > 1 else None,
            difference=difference,
            half=half,
            detectable=detectable,
            root_tokens=by_root,
            root_difference=root_difference,
            root_half=root_half,
            same=name != self.baseline and self._is_baseline(name),
        )

    def _is_baseline(self, name: str) -> bool:
        """Whether a group has the runs of the baseline."""
        return _weights(self.groups[name]) == _weights(self.groups[self.baseline])

    def _compared(self, name: str, *, roots: bool) -> tuple[float | None, float | None, float | None]:
        """Difference from the baseline, half its interval, and the smallest detectable one."""
        if name == self.baseline:
            return None, None, None
        if self._is_baseline(name):
            return 0.0, 0.0, None
        found = self.difference(name, self.baseline, roots=roots)
        return found.percent, found.half_width(LEVEL), found.minimum_detectable(LEVEL, POWER)

    def __add__(self, other: DraftComparison) -> Self:
        """The comparison on the prompts of both, with the provenance of the first. `sum` adds several.

        Raises:
            InputError: policy, verifier, baseline, target, sampling or drafts differ, or a prompt is in both.
        """
        if not isinstance(other, DraftComparison):
            return NotImplemented
        mine, theirs = _identity(self), _identity(other)
        for name, value in mine.items():
            if value != theirs[name]:
                raise InputError(
                    f"comparisons with different {name} cannot be added: {value!s:.60} and {theirs[name]!s:.60}"
                )
        return replace(
            self,
            prompts=self.prompts + other.prompts,
            roots=np.concatenate([self.roots, other.roots]),
            runs=tuple(one.joined(other) for one, other in zip(self.runs, other.runs, strict=True)),
        )

    def __radd__(self, other: int) -> Self:
        """Support for `sum`, which starts from 0."""
        if other != 0:
            raise InputError(f"a comparison can only be added to another comparison, got {other}")
        return self


def _identity(comparison: DraftComparison) -> Mapping[str, object]:
    """What two comparisons must agree in to be added, by name."""
    stamp = {name: getattr(comparison.provenance, name) for name in IDENTITY}
    drafts = [(run.group, run.weights) for run in comparison.runs]
    return (
        {"policy": comparison.policy, "verifier": comparison.verifier, "baseline": comparison.baseline}
        | stamp
        | {"drafts": drafts}
    )


def _weights(runs: list[DraftRun]) -> list[str]:
    return sorted(run.weights for run in runs)


def check_groups(groups: Mapping[str, Sequence[str]], baseline: str) -> None:
    """Check that groups can be compared, before any draft runs.

    Args:
        groups: for each group the hashes of the weights of its drafts.
        baseline: the group that the others are compared with.

    Raises:
        InputError: see `DraftComparison`.
    """
    if baseline not in groups:
        raise InputError(f"baseline must be one of {', '.join(groups) or 'the groups'}, got {baseline!r:.60}")
    for name, weights in groups.items():
        if len(set(weights)) < len(weights):
            raise InputError(
                f"group {name} has the same draft twice, which hides how much the seeds of training differ: name each "
                "folder once"
            )
        for other, theirs in groups.items():
            if set(weights) & set(theirs) and set(weights) != set(theirs):
                raise InputError(
                    f"groups {name} and {other} share a draft but are not equal, so that their seeds of training are "
                    "not independent: put each folder into one group"
                )
