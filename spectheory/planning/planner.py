"""`Plan`: the fastest tree, chain or no speculation, given acceptance rates and forward times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.candidates import Candidates, Limits, Progress, ignore_progress
from spectheory.planning.replayed_choice import Option, ReplayedChoice, fastest_verifier
from spectheory.replay import Replayed, Replays
from spectheory.verify import Greedy, name_of, verifier_of
from spectheory.yields import block_efficiency, block_efficiency_interval, reach


class BudgetCurves(NamedTuple):
    """The best predictions for each budget. Each array has shape (max_budget + 1,); entry 0 is no speculation.

    Attributes:
        tree_block_efficiency: the highest block efficiency of any tree.
        tree_speedup: the speedup of the fastest tree. It may be shallower or narrower than the tree of highest block
            efficiency.
        chain_block_efficiency, chain_speedup: block efficiency and speedup of the chain.
    """

    tree_block_efficiency: np.ndarray
    tree_speedup: np.ndarray
    chain_block_efficiency: np.ndarray
    chain_speedup: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Record):
    """A tree to verify, with the rates and times from which its speed is predicted. `Tree.chain(0)` is no speculation.

    Every prediction is computed from these fields. Make a plan with `plan`, or from your own tree with `evaluate`.

    Attributes:
        tree: the chosen tree.
        acceptance: the acceptance rates from which the speed is predicted.
        latency: the forward times from which the speed is predicted.
        context: number of tokens in the KV cache for which the speed is predicted.
        limits: the limits of the search that chose the tree.
        verifier: the name of the verifier that was chosen with the tree; None if tau is predicted from rates, which do
            not tell verifiers apart, or if nothing is drafted.
        rule: the name of the `DrawRule` by which children are drawn; None as for `verifier`.
        replayed: the cycles of this tree and verifier on recorded texts, from which tau is predicted; None as for
            `verifier`.

    Raises:
        InputError: the context was not measured, the tree is not within the limits, only some of `verifier`, `rule` and
            `replayed` are given, or they contradict each other or the tree.
    """

    kind: ClassVar[str] = "plan"
    schema: ClassVar[int] = 3
    derived: ClassVar[tuple[str, ...]] = (
        "answer",
        "block_efficiency",
        "block_efficiency_low",
        "block_efficiency_high",
        "draft_seconds",
        "target_seconds",
        "overhead_seconds",
        "plain_seconds",
        "speedup",
    )
    repair: ClassVar[str] = "to plan with your own tree use `spectheory plan --tree` or `spectheory.evaluate`"

    tree: Tree
    acceptance: Acceptance
    latency: Latency
    context: int
    limits: Limits
    provenance: Provenance
    verifier: str | None = None
    rule: str | None = None
    replayed: Replayed | None = None

    def __post_init__(self) -> None:
        self.latency.context_of(self.context)
        self.limits.require(self.tree)
        require_verified(self.tree, self.verifier, self.rule, self.replayed)

    @property
    def answer(self) -> str:
        """`off`, `chain` or `tree`."""
        return answer_of(self.tree)

    @cached_property
    def block_efficiency(self) -> float:
        """Predicted tau, tokens per target call: replayed where there is a trace, otherwise from the rates."""
        if self.replayed is not None:
            return self.replayed.tau
        return float(block_efficiency(self.tree, self.acceptance))

    @cached_property
    def block_efficiency_interval(self) -> tuple[float, float] | None:
        """95% interval of the predicted tau, over the texts of a trace or from the counts of the rates; None for one
        text, and for rates without counts.
        """
        if self.replayed is not None:
            return self.replayed.tau_interval() if (self.replayed.cycles > 0).sum() > 1 else None
        if self.acceptance.trials is None:
            return None
        return block_efficiency_interval(self.tree, self.acceptance)

    @property
    def block_efficiency_low(self) -> float | None:
        """Lower end of `block_efficiency_interval`, None if that is None."""
        return None if self.block_efficiency_interval is None else float(self.block_efficiency_interval[0])

    @property
    def block_efficiency_high(self) -> float | None:
        """Upper end of `block_efficiency_interval`, None if that is None."""
        return None if self.block_efficiency_interval is None else float(self.block_efficiency_interval[1])

    @property
    def draft_seconds(self) -> float:
        """Predicted seconds of draft forwards in a cycle."""
        return self.latency.draft_levels(self.tree, self.context)

    @property
    def target_seconds(self) -> float:
        """Predicted seconds of the target forward in a cycle."""
        return self.latency.target(self.tree.budget + 1, self.context)

    @property
    def overhead_seconds(self) -> float:
        """Predicted seconds of a cycle outside the forwards."""
        return self.latency.overhead(self.tree, self.verifier)

    @property
    def cycle_seconds(self) -> float:
        """Predicted seconds of one cycle."""
        return self.draft_seconds + self.target_seconds + self.overhead_seconds

    @property
    def plain_seconds(self) -> float:
        """Predicted seconds per token of plain decoding."""
        return self.latency.plain(self.context)

    @property
    def speedup(self) -> float:
        """Predicted speedup: seconds per token of plain decoding divided by seconds per token of this plan."""
        return self.block_efficiency * self.plain_seconds / self.cycle_seconds

    @property
    def summary(self) -> str:
        """The answer with its prediction in one sentence, and the time of a cycle in a second one."""
        after = f"after {self.context:,} tokens of context"
        if self.answer == "off":
            curves = self.by_budget
            best = np.max([*curves.tree_speedup[1:], *curves.chain_speedup[1:]], initial=0.0)
            if best > 1:  # by the rates; replay found that nothing pays
                return f"Do not speculate: {after} no tree that was replayed is faster than plain decoding."
            return f"Do not speculate: {after} the best draft is predicted to run at {best:.2f}x the plain speed."
        tree, interval = self.tree, self.block_efficiency_interval
        what = f"chain of {tree.budget}" if tree.is_chain else f"tree of {tree.budget} nodes, {tree.max_depth} deep"
        limits = f" (95% interval {interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
        what += f", with {self.verifier}" if self.verifier else ""
        return (
            f"Verify a {what}: predicted {self.block_efficiency:.3f} tokens per target call{limits} and "
            f"{self.speedup:.2f}x the plain speed, {after}.\nA cycle takes {1e3 * self.cycle_seconds:.3g} ms: draft "
            f"{1e3 * self.draft_seconds:.3g}, verify {1e3 * self.target_seconds:.3g}, overhead "
            f"{1e3 * self.overhead_seconds:.3g}."
        )

    @property
    def reach(self) -> np.ndarray:
        """(budget + 1,) predicted probability that each node is accepted."""
        return reach(self.tree, self.acceptance)

    @cached_property
    def by_budget(self) -> BudgetCurves:
        """The best predictions for every budget within the limits. A loaded plan searches again to compute them."""
        candidates = Candidates(self.acceptance, self.limits)
        return _curves(candidates, candidates.speedups(self.latency, self.context))


def require_verified(tree: Tree, verifier: str | None, rule: str | None, replayed: Replayed | None) -> None:
    """Check the verifier, the draw rule and the replayed cycles of a tree; all are None if tau is not replayed.

    Raises:
        InputError: only some are given, or they contradict each other or the tree.
    """
    if verifier is None and rule is None and replayed is None:
        return
    if verifier is None or rule is None or replayed is None:
        raise InputError("verifier, rule and replayed must be given together: plan with a trace")
    chosen = verifier_of(verifier)
    if chosen.takes != "trees" and not tree.is_chain:
        raise InputError(f"verifier of {tree} must verify trees, got {verifier}, which verifies {chosen.takes}")
    rules = ["TOP_K"] if isinstance(chosen, Greedy) else [known.name for known in chosen.rules]
    if rule not in rules:
        raise InputError(f"rule must be one of {verifier}, {', '.join(rules)}, got {rule!r:.60}")
    if (depth := len(replayed.accepted) - 1) != tree.max_depth:
        raise InputError(f"replayed must be of the tree, which is {tree.max_depth} deep, got {depth}")


PRODUCT = "tau is a product of rates: a rate depends on depth and rank alone, whatever the verifier"
"""What a prediction from rates assumes and a replayed one does not."""


def assumptions_of(
    acceptance: Acceptance, trees: Iterable[Tree], latencies: Iterable[Latency], *, replayed: bool
) -> tuple[str, ...]:
    """What the predictions for `trees` assume about the rates and about the times, one sentence each.

    Of the rates, `replayed` predictions assume nothing: they only propose trees.
    """
    latencies, deepest = list(latencies), max(tree.max_depth for tree in trees)
    times = tuple(sentence for latency in latencies for sentence in latency.provenance.assumptions)
    if replayed:
        return tuple(dict.fromkeys(times))
    product = [PRODUCT] if deepest else []
    deeper = (
        [
            f"rates are known only down to depth {acceptance.depths}: deeper nodes use the rates of that depth, "
            f"in trees and chains down to depth {deepest}"
        ]
        if deepest > acceptance.depths
        else []
    )
    measured, planned = (_pair_of(record.provenance) for record in (acceptance, latencies[0]))
    other = [f"rates were measured on {measured} and are used for {planned}"] if measured and planned else []
    every = (*acceptance.provenance.assumptions, *other * (measured != planned), *product, *deeper, *times)
    return tuple(dict.fromkeys(every))


def _pair_of(stamp: Provenance) -> str | None:
    """`target with draft` by the names in a record's provenance; None if it does not name both."""
    return f"{stamp.target} with {stamp.draft}" if stamp.target and stamp.draft else None


def answer_of(tree: Tree) -> str:
    """`off` for the root alone, otherwise `chain` or `tree`."""
    if tree.budget == 0:
        return "off"
    return "chain" if tree.is_chain else "tree"


def plan(
    acceptance: Acceptance,
    latency: Latency,
    *,
    max_budget: int = 64,
    max_depth: int | None = None,
    max_fanout: int | None = None,
    context: int | None = None,
    replays: Replays | None = None,
    progress: Progress = ignore_progress,
) -> Plan:
    """The tree, the chain or no speculation, whichever has the highest predicted speedup over plain decoding.

    For each budget up to `max_budget`, each depth limit and each width limit, the tree of highest block efficiency is
    timed. `Candidates` documents how close this is to a search over all trees. With recorded texts, tree and verifier
    are chosen together: see `ReplayedChoice`.

    Args:
        acceptance: rates by depth and rank.
        latency: forward times.
        max_budget: largest number of drafted nodes.
        max_depth: depth of the deepest drafted node; None sets no limit.
        max_fanout: largest number of children of a node; None sets no limit.
        context: tokens in the KV cache; defaults to the middle of the measured contexts.
        replays: texts of a trace, on which trees and verifiers are replayed; None predicts tau from the rates.
        progress: callback to which the search reports its progress.

    Raises:
        InputError: `max_budget`, `max_depth` or `max_fanout` is below 1, the search does not fit into memory, `context`
            is outside the measured contexts, or the texts are too short to replay any tree.
    """
    context = latency.context_of(context)
    limits = Limits(max_budget, max_depth, max_fanout)
    candidates = Candidates(acceptance, limits, progress)
    speedups = candidates.speedups(latency, context)
    if replays is None:
        tree, best = candidates.tree(candidates.fastest(speedups)), None
    else:
        best = ReplayedChoice(replays, candidates, progress).fastest(latency, context)
        tree = best.tree if best else Tree.chain(0)
    chosen = _plan(tree, acceptance, latency, context, limits, "spectheory.plan", best)
    vars(chosen)["by_budget"] = _curves(candidates, speedups)  # the cached property would search again
    return chosen


def evaluate(
    tree: Tree,
    acceptance: Acceptance,
    latency: Latency,
    *,
    context: int | None = None,
    replays: Replays | None = None,
    verifier: str | None = None,
) -> Plan:
    """A plan with your own tree, for its predictions. Nothing is searched.

    Args:
        tree: the tree that every cycle drafts; `Tree.chain(0)` is no speculation.
        acceptance: rates by depth and rank.
        latency: forward times.
        context: tokens in the KV cache; defaults to the middle of the measured contexts.
        replays: texts of a trace, on which the tree is replayed; None predicts tau from the rates.
        verifier: the name of the verifier that is replayed; None takes the fastest one.

    Raises:
        InputError: `context` is outside the measured contexts, the tree cannot be replayed on the texts or with this
            verifier, or a verifier is named without texts.

    >>> rates, times = Acceptance.by_rank([0.6, 0.2]), Latency.constant(draft_seconds=0.1)
    >>> round(evaluate(Tree.chain(2), rates, times).speedup, 3)
    1.633
    """
    context, limits, best = latency.context_of(context), Limits(max(1, tree.budget)), None
    if verifier is not None and replays is None:
        raise InputError(f"verifier {verifier!r} needs replays: rates alone do not tell verifiers apart")
    if replays is not None and tree.budget:
        best = fastest_verifier(replays, tree, latency, context, verifier)
    return _plan(tree, acceptance, latency, context, limits, "spectheory.evaluate", best)


def _curves(candidates: Candidates, speedups: np.ndarray) -> BudgetCurves:
    return BudgetCurves(
        candidates.block_efficiency[candidates.free],
        candidates.fastest_by_budget(speedups),
        candidates.block_efficiency[candidates.chains],
        speedups[candidates.chains],
    )


def _plan(
    tree: Tree,
    acceptance: Acceptance,
    latency: Latency,
    context: int,
    limits: Limits,
    source: str,
    option: Option | None,
) -> Plan:
    times = latency.provenance
    stamp = Provenance.now(source, target=times.target, draft=times.draft, batch=times.batch, **times.placement)
    stamp = stamp.assuming(*assumptions_of(acceptance, [tree], [latency], replayed=option is not None))
    made = Plan(tree, acceptance, latency, context, limits, stamp)
    if option is None:
        return made
    return replace(made, verifier=name_of(option.verifier), rule=option.rule.name, replayed=option.replayed)
