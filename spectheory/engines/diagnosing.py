"""`diagnose`: the seconds of a server's cycle as observed and as predicted, and what would be fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.engines.engine import Observed
from spectheory.engines.statistics import constant
from spectheory.hardware.latency import Latency
from spectheory.hardware.models import known_model
from spectheory.planning.candidates import MAX_BUDGET
from spectheory.planning.deployment import Deployment
from spectheory.planning.planner import plan
from spectheory.planning.schedule_record import Schedule

Times = Deployment | Latency | Sequence[Latency]


@dataclass(frozen=True)
class CycleSeconds:
    """Seconds of a cycle by its parts, of the whole with the prompts that are read in it, and of a plain step."""

    draft: float | None = None
    verification: float | None = None
    overhead: float | None = None
    prompts: float | None = None
    cycle: float | None = None
    plain: float | None = None


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What one served model did, beside what forward times predict for it. A figure that is unknown is None.

    Attributes:
        engine: title of the engine.
        model: the label of the model, if the server has several; otherwise "".
        tau: tokens per target call; 1 if nothing was drafted.
        rates: the observed acceptance rate of each position, given that those before it were accepted; one rate for all
            positions if only tau is known; empty if it is unknown how many tokens were drafted.
        nodes: drafted tokens per cycle, the root excluded; 0 if nothing was drafted.
        batch: mean number of sequences that decode together.
        observed: the seconds by the reports.
        predicted: the seconds by forward times.
        plan: the plan of the fastest chain by the rates and forward times, as `spectheory.schedule` makes it.
        best_speedup: how many times as fast as the current drafts that chain is, by the same rates and times.
        notes: what the figures contain, and what was assumed.
    """

    engine: str
    model: str
    tau: float
    rates: tuple[float, ...]
    nodes: float | None
    batch: float | None
    observed: CycleSeconds
    predicted: CycleSeconds
    plan: Schedule | None
    best_speedup: float | None
    notes: tuple[str, ...]

    @property
    def best_length(self) -> int | None:
        """Number of drafted tokens of the fastest chain; 0 means no speculation."""
        return None if self.plan is None else self.plan.tree.budget

    @property
    def answer(self) -> str:
        """What to run instead of the current drafts, and how fast that is predicted to be; empty without a plan."""
        if self.plan is None or self.best_speedup is None:
            return ""
        best, fast = self.plan.tree.budget, f"predicted {self.plan.gain(0)} plain decoding"
        if self.best_speedup < 1.005:
            return f"Keep the current drafts: no chain is predicted to be faster. A chain of {best}: {fast}."
        what = f"Draft {best} token{'s' * (best > 1)} a cycle" if best else "Turn speculation off"
        return f"{what}: {fast} and {self.best_speedup:.2f}x the current drafts."

    def to_dict(self) -> dict[str, Any]:
        """The figures for JSON, without the plan."""
        figures = asdict(replace(self, plan=None)) | {"speedup": self.speedup, "best_length": self.best_length}
        return {name: value for name, value in figures.items() if name != "plan"}

    @property
    def speedup(self) -> float | None:
        """Observed speed divided by the speed without speculation, which is predicted if it was not observed."""
        plain, cycle = self.observed.plain or self.predicted.plain, self.observed.cycle
        return self.tau * plain / cycle if plain and cycle else None


def diagnosed(
    engine: str,
    model: str,
    seen: Observed,
    without: Observed | None,
    times: Times | None,
    shape: tuple[int, int] | None,
) -> Diagnosis:
    """The diagnosis of one observed model; see `spectheory.engines.diagnose`."""
    notes = list(seen.notes)
    tree, share = _drafted_tree(seen, shape, notes), 1.0
    rates = None if seen.statistics is None or tree is None else seen.statistics.acceptance
    if seen.statistics is not None and tree is not None and (rates is None or rates.trials is None):
        rates = constant(seen.tau, tree.max_depth)
    if rates is not None and isinstance(times, Deployment):
        rates, share = times.of_all_steps(rates)
    latency, at = _forward_times(times, seen, share, notes)
    if rates is not None and (served := known_model(model)):
        rates = replace(rates, provenance=rates.provenance.replace(target=served.name))
    predicted, best, gain = CycleSeconds(), None, None
    if latency is not None and tree is not None:
        prompts = float(latency.prompts(seen.tau))
        predicted = CycleSeconds(
            latency.draft_levels(tree, at),
            latency.target(tree.budget + 1, at),
            latency.overhead(tree),
            prompts,
            latency.cycle(tree, at) + prompts,
            latency.plain(at),
        )
        if rates is not None:
            deepest = times.deepest(rates) if isinstance(times, Deployment) else None
            most = min(MAX_BUDGET, int(latency.tokens[-1]) - 1)
            best = plan(rates, latency, context=at, max_budget=most, max_depth=deepest, max_fanout=1)
            gain = best.speedup / latency.speedup(tree, best.rates.tau(tree) if tree.is_chain else seen.tau, at)
    step = seen.step_seconds if seen.statistics is None else without.step_seconds if without else None
    return Diagnosis(
        engine,
        model,
        seen.tau,
        () if rates is None else tuple(rates.table.sum(axis=1).tolist()),
        seen.nodes if shape is None else float(shape[0]),
        seen.batch,
        CycleSeconds(draft=seen.draft_seconds, cycle=seen.step_seconds, plain=step),
        predicted,
        best,
        gain,
        tuple(dict.fromkeys(notes)),
    )


def _drafted_tree(seen: Observed, shape: tuple[int, int] | None, notes: list[str]) -> Tree | None:
    """A tree with the drafted nodes, spread evenly over the levels; None if their number is unknown."""
    if seen.statistics is None:
        notes.append("nothing was drafted: is speculation configured, or off at this load?")
        return Tree.chain(0)
    if shape is None and seen.nodes is None:
        notes.append("the report does not say how many tokens were drafted: give its nodes (--tree)")
        return None
    nodes = max(1, round(seen.nodes or 0)) if shape is None else shape[0]
    depth = min(nodes, seen.statistics.positions or nodes) if shape is None else shape[1]
    if not max(1, seen.tau - 1) <= depth <= nodes:
        raise InputError(f"levels must be from tau - 1 = {seen.tau - 1:.4g} to nodes={nodes}, got {depth}")
    parent, first = [-1], 0
    for level in range(depth):
        width = nodes // depth + (level < nodes % depth)
        parent += [first] * width
        first = len(parent) - width
    return Tree(parent)


def _forward_times(times: Times | None, seen: Observed, share: float, notes: list[str]) -> tuple[Latency | None, int]:
    """The forward times at the server's batch size, if they are known, and their context."""
    if isinstance(times, Deployment):
        if seen.batch is None:
            notes.append("nothing is predicted, because the batch size is not known: give it (--batch)")
            return None, 0
        if (times.prompt_tokens, times.context) == (None, None) and seen.prompt_tokens is not None:
            times = replace(times, prompt_tokens=seen.prompt_tokens, output_tokens=seen.output_tokens)
        requests = "" if times.prompt_tokens is None else f" --lengths {times.prompt_tokens:g},{times.output_tokens:g}"
        notes.append(f"predicted as by spectheory schedule --batch {max(1, round(seen.batch))}{requests}")
        return times.latency(max(1, round(seen.batch)), drafted_share=share), times.planned_context
    records = [times] if isinstance(times, Latency) else list(times or ())
    if not records:
        return None, 0
    batch = seen.batch or records[0].batch
    near = min(records, key=lambda latency: max(latency.batch / batch, batch / latency.batch))
    if seen.batch is None or near.batch != round(batch):
        known = "is not known" if seen.batch is None else f"is {batch:.3g}"
        notes.append(f"the forward times are of batch size {near.batch}, that of the server {known}")
    return near, near.context_of(None)
