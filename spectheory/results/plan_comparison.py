"""What a plan predicts, beside what a run with it counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.ratios import clusters
from spectheory.core.tree import Tree
from spectheory.planning.planner import other_models
from spectheory.planning.schedule_record import Schedule
from spectheory.results.tally import Tally
from spectheory.verify import verifier_of


@dataclass(frozen=True, eq=False)
class Account:
    """The cycles of one plan according to theory or to a run. A field is None if it is unknown.

    Attributes:
        name: `theory`, or `simulation` or `measurement` for a run.
        tau: tokens emitted per target call.
        tau_interval: limits of the 95% interval of tau.
        accepted: (deepest + 1,) share of cycles in which exactly 0, 1, ... drafted tokens were accepted.
        speedup: seconds per token of plain decoding divided by seconds per token of speculation.
        cycle_seconds: seconds per cycle by part: `draft`, `verify` and `overhead`.
        plain_seconds: seconds per token of plain decoding.
        tally: the counts of a run; None for theory.
    """

    name: str
    tau: float
    tau_interval: tuple[float, float] | None
    accepted: np.ndarray
    speedup: float | None
    cycle_seconds: dict[str, float] | None
    plain_seconds: float | None
    provenance: Provenance
    tally: Tally | None = None


@dataclass(frozen=True, eq=False)
class PlanComparison:
    """Theory and run of one plan."""

    plan: Schedule
    theory: Account
    measurement: Account | None

    @property
    def accounts(self) -> tuple[Account, ...]:
        """The accounts that exist, theory first."""
        return (self.theory,) if self.measurement is None else (self.theory, self.measurement)

    @property
    def inside(self) -> bool | None:
        """Whether the predicted tau lies inside the measured 95% interval; None without such an interval."""
        if self.measurement is None or self.measurement.tau_interval is None:
            return None
        low, high = self.measurement.tau_interval
        return low <= self.theory.tau <= high

    @property
    def error_percent(self) -> float | None:
        """How far the predicted tau is above the measured tau, in percent; None without a measurement."""
        return None if self.measurement is None else 100 * (self.theory.tau / self.measurement.tau - 1)

    @property
    def verdict(self) -> str:
        """A sentence on tau and one on seconds, then reasons why plan and run are not fully comparable."""
        if self.measurement is None or self.measurement.tally is None:
            return f"The predicted tau of {self.theory.tau:.3f} has not been measured."
        said, tally = [self._sentence(self.measurement), *self._seconds()], self.measurement.tally
        said += [f"But {one}." for one in mismatches(self.plan, tally.provenance)]
        if len(tally.cycles) < tally.wanted:
            done = f"{len(tally.cycles):,} of {tally.wanted:,} requests"
            said.append(f"The decode was interrupted: {done} are counted.")
        return " ".join(said)

    def _sentence(self, measured: Account) -> str:
        error = self.error_percent or 0.0
        off_by = f"{abs(error):.1f}% too {'high' if error > 0 else 'low'}"
        said = f"The predicted tau, {self.theory.tau:.3f}, is {off_by}: {measured.tau:.3f} was measured"
        if measured.tau_interval is None:
            return f"{said}, in one request, which gives no interval."
        low, high = measured.tau_interval
        side = "inside" if self.inside else "outside"
        return f"{said}. The prediction lies {side} the 95% interval, {low:.3f} to {high:.3f}."

    def _seconds(self) -> list[str]:
        known = [(1e3 * one.plain_seconds, one.speedup) for one in self.accounts if one.plain_seconds and one.speedup]
        if len(known) < 2:
            return []
        (plain, ratio), (usual, seen) = known
        return [
            f"A token takes {plain / ratio:.2f} ms by the prediction and {usual / seen:.2f} ms measured; without "
            f"drafts {plain:.2f} and {usual:.2f} ms. That is {ratio:.2f}x and {seen:.2f}x."
        ]


def compare(plan: Schedule, tally: Tally | None, name: str = "measurement") -> PlanComparison:
    """Compare the prediction of `plan` with the tally of a run with it, a `measurement` or a `simulation`.

    Raises:
        InputError: the tally has no cycle, or was counted with another tree.
    """
    if tally is not None and tally.provenance.tree not in (None, plan.tree.identity):
        raise InputError("the tally was counted with a different tree: give the plan that it was made with")
    return PlanComparison(plan, _predicted(plan), None if tally is None else _counted(name, tally))


def mismatches(plan: Schedule, decoding: Provenance) -> list[str]:
    """One clause for each known difference of a plan from a decoding: temperature, verifier, models, placement."""
    found, planned, here = [], plan.acceptance.provenance.sampling, decoding.sampling
    if planned and here and planned != here:
        found.append(f"the plan's rates were measured at {planned}, while decoding is at {here}")
    if plan.verifier and decoding.verifier and (chosen := str(verifier_of(plan.verifier))) != decoding.verifier:
        found.append(f"the plan was made for the verifier {chosen}, while decoding uses {decoding.verifier}")
    if other := other_models(plan.acceptance.provenance, decoding):
        found.append(other)
    timed, here = plan.latency.provenance.placement, decoding.placement
    if differing := [name for name in timed if here.get(name, timed[name]) != timed[name]]:
        times, now = (", ".join(f"{name} {record[name]}" for name in differing) for record in (timed, here))
        found.append(f"the plan's forward times were measured with {times}, while decoding uses {now}")
    return found


def accepted_distribution(tree: Tree, reach: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, " lengths"]:
    """Probability that exactly 0, 1, ... tokens of `tree` are accepted.

    At least `a` tokens are accepted exactly when a node at depth `a` is accepted, and at most one node per
    depth is accepted.
    """
    at_least = np.bincount(tree.depth, weights=reach)
    return at_least - np.append(at_least[1:], 0.0)


def _predicted(plan: Schedule) -> Account:
    counted = None if plan.replayed is None else plan.replayed.accepted
    accepted = accepted_distribution(plan.tree, plan.reach) if counted is None else counted / counted.sum()
    return Account(
        name="theory",
        tau=plan.tau,
        tau_interval=plan.tau_interval,
        accepted=accepted,
        speedup=plan.speedup,
        cycle_seconds=plan.cycle_parts(),
        plain_seconds=plan.plain_seconds,
        provenance=plan.provenance,
    )


def _counted(name: str, tally: Tally) -> Account:
    cycles = int(tally.cycles.sum())
    clocked = {
        "draft": tally.draft_seconds,
        "verify": tally.target_seconds,
        "overhead": tally.seconds - tally.draft_seconds - tally.target_seconds,
    }
    return Account(
        name=name,
        tau=tally.tau,
        tau_interval=tally.tau_interval() if clusters(tally.cycles) > 1 else None,
        accepted=tally.accepted_histogram / cycles,
        speedup=tally.speedup,
        cycle_seconds={part: s / cycles for part, s in clocked.items()} if tally.seconds else None,
        plain_seconds=tally.plain_seconds / tally.plain_tokens if tally.plain_tokens else None,
        provenance=tally.provenance,
        tally=tally,
    )
