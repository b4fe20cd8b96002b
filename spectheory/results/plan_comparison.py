"""What a plan predicts, beside what a run with it counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from spectheory.core.checks import checked
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.ratios import by_source, clusters
from spectheory.core.tree import Tree
from spectheory.planning.planner import other_models
from spectheory.planning.schedule_record import Schedule
from spectheory.results.tally import Tally
from spectheory.verify import verifier_of


@dataclass(frozen=True, eq=False)
class PlanComparison:
    """What a plan predicts, beside the tally of a run with it."""

    plan: Schedule
    tally: Tally

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of the measured tau; None for one request or source."""
        counted = by_source(self.tally.sources, self.tally.cycles)
        return self.tally.tau_interval() if clusters(*counted) > 1 else None

    @property
    def error_percent(self) -> float:
        """How far the predicted tau is above the measured tau, in percent."""
        return 100 * (self.plan.tau / self.tally.tau - 1)

    @property
    def accepted(self) -> tuple[Float[np.ndarray, " lengths"], Float[np.ndarray, " lengths"]]:
        """Share of cycles that accept exactly 0, 1, ... drafted tokens, predicted and measured."""
        plan, counted = self.plan, self.tally.accepted_histogram / self.tally.cycles.sum()
        if plan.replayed is None:
            return accepted_distribution(plan.tree, plan.reach), counted
        return plan.replayed.accepted / plan.replayed.accepted.sum(), counted

    @property
    def cycle_seconds(self) -> dict[str, float] | None:
        """Measured seconds of a cycle by part, as in `Schedule.cycle_parts`; None if nothing was timed."""
        tally = self.tally
        if not tally.seconds:
            return None
        rest = tally.seconds - tally.draft_seconds - tally.target_seconds
        parts = {"draft": tally.draft_seconds, "verify": tally.target_seconds, "overhead": rest}
        return {part: float(seconds / tally.cycles.sum()) for part, seconds in parts.items()}

    @property
    def verdict(self) -> str:
        """A sentence on tau and one on seconds, then reasons why plan and run are not fully comparable."""
        plan, tally, error = self.plan, self.tally, self.error_percent
        off_by = f"{abs(error):.1f}% too {'high' if error > 0 else 'low'}"
        sentence = f"The predicted tau, {plan.tau:.3f}, is {off_by}: {tally.tau:.3f} was measured"
        if self.interval is None:
            found = [f"{sentence}, in one {'cluster' if tally.sources else 'request'}, which gives no interval."]
        else:
            low, high = self.interval
            side = "inside" if low <= plan.tau <= high else "outside"
            found = [f"{sentence}. The prediction lies {side} the 95% interval, {low:.3f} to {high:.3f}."]
        if tally.speedup:
            predicted, measured = 1e3 * plan.plain_seconds, 1e3 * tally.plain_seconds / tally.plain_tokens
            found.append(
                f"A token takes {predicted / plan.speedup:.2f} ms by the prediction and {measured / tally.speedup:.2f} "
                f"ms measured; without drafts {predicted:.2f} and {measured:.2f} ms. That is {plan.speedup:.2f}x and "
                f"{tally.speedup:.2f}x."
            )
        found += [f"But {one}." for one in mismatches(plan, tally.provenance)]
        if len(tally.cycles) < tally.wanted:
            done = f"{len(tally.cycles):,} of {tally.wanted:,} requests"
            found.append(f"The decode was interrupted: {done} are counted.")
        return " ".join(found)


@checked
def compare(plan: Schedule, tally: Tally) -> PlanComparison:
    """Compare the prediction of `plan` with the tally of a run with it.

    Raises:
        InputError: the tally has no cycle, or was counted with another tree.
    """
    if tally.provenance.tree not in (None, plan.tree.identity):
        raise InputError("the tally was counted with a different tree: give the plan that it was made with")
    if not tally.cycles.any():
        raise InputError("the tally must have at least one cycle, got none: decode more tokens")
    return PlanComparison(plan, tally)


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
