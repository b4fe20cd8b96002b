"""`Plan`: a tree to verify, with what its speed is predicted from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.ratios import clusters
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.budget_curves import BudgetCurves, curves_of
from spectheory.planning.by_rates import ByRates
from spectheory.planning.candidates import Candidates, Limits
from spectheory.planning.confidence import Confidence, require_computed
from spectheory.planning.node_reach import node_reach
from spectheory.planning.replayed_tree import ReplayedTree, replayed_tree
from spectheory.planning.tried_trees import TriedTrees, require_one_source, require_tried
from spectheory.replay import Replayed
from spectheory.yields import RequestClasses


@final
@dataclass(frozen=True, eq=False, repr=False)
class Plan(Record):
    """A tree to verify, with the rates and times from which its speed is predicted.

    The tree `Tree.chain(0)` means no speculation. Every prediction is computed from these fields. Make a plan with
    `plan`, or from your own tree with `evaluate`.

    Attributes:
        tree: the chosen tree.
        acceptance: the acceptance rates from which the speed is predicted.
        latency: the forward times from which the speed is predicted.
        context: number of tokens in the KV cache for which the speed is predicted.
        limits: the limits of the search that chose the tree.
        classes: classes of contexts from which tau is predicted in place of one table of rates; None if tau is replayed
            or predicted from the table.
        verifier: the name of the verifier that was chosen with the tree; None if tau is predicted from rates, which do
            not tell verifiers apart, or if nothing is drafted.
        rule: the name of the `DrawRule` by which children are drawn; None as for `verifier`.
        replayed: the cycles of this tree and verifier on recorded texts, from which tau and the reach of the nodes are
            predicted; None as for `verifier`.
        chain: the fastest chain that was replayed, for engines that verify chains only; None if none is faster than
            plain decoding, or if nothing was replayed.
        tried: trees that were replayed, this one and the chains among them; None if tau is predicted from rates.
        confidence: how far computed times of such a deployment were off; None if no roofline computed the times.

    Raises:
        InputError: the context was not measured, a tree is not within the limits, only some of `verifier`, `rule`,
            `replayed` and `tried` are given, or they contradict each other or the tree.
    """

    kind: ClassVar[str] = "plan"
    schema: ClassVar[int] = 8
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

    tree: Tree
    acceptance: Acceptance
    latency: Latency
    context: int
    limits: Limits
    provenance: Provenance
    verifier: str | None = None
    rule: str | None = None
    replayed: Replayed | None = None
    chain: ReplayedTree | None = None
    tried: TriedTrees | None = None
    classes: RequestClasses | None = None
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        require_computed(self.confidence, [self.latency])
        self.latency.context_of(self.context)
        self.limits.require(self.tree)
        used = [(self.tree, replayed_tree(self.tree, self.verifier, self.rule, self.replayed))]
        if self.chain is not None:
            self.limits.require(self.chain.tree)
            used.append((self.chain.tree, self.chain))
            if not self.chain.tree.is_chain:
                raise InputError(f"chain must be a chain, got {self.chain.tree}")
        require_tried(self.tried, used)
        require_one_source(self.tried, self.classes)

    @property
    def rates(self) -> ByRates:
        """What the rates predict."""
        return ByRates(self.acceptance, self.classes)

    @property
    def answer(self) -> str:
        """`off`, `chain` or `tree`."""
        return answer_of(self.tree)

    @cached_property
    def block_efficiency(self) -> float:
        """Predicted tau, tokens per target call: replayed where there is a trace, otherwise from the rates."""
        return self.rates.tau(self.tree) if self.replayed is None else self.replayed.tau

    @cached_property
    def block_efficiency_interval(self) -> tuple[float, float] | None:
        """95% interval of the predicted tau, over the texts of a trace or from the counts of the rates; None for one
        text, and for rates without counts.
        """
        if self.replayed is not None:
            return self.replayed.tau_interval() if clusters(self.replayed.cycles) > 1 else None
        return self.rates.interval(self.tree)

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
        """Predicted seconds of a cycle outside the forwards, with the prompts of new requests."""
        prompts = self.latency.prompts(self.block_efficiency, self.tree.budget > 0)
        return self.latency.overhead(self.tree, self.verifier) + float(prompts)

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
            best, draft = self.by_budget.highest_speedup, "draft" if self.tried is None else "replayed draft"
            return f"Do not speculate: {after} the best {draft} is predicted to run at {best:.2f}x the plain speed."
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
    def reach(self) -> Float[np.ndarray, " nodes"]:
        """Predicted probability that each node is accepted; see `reach_source`."""
        return node_reach(self.tree, self.rates, self.replayed).values

    @property
    def reach_source(self) -> str:
        """How `reach` was predicted, as shown to readers, such as "nodes by the rates"."""
        return node_reach(self.tree, self.rates, self.replayed).source

    @cached_property
    def by_budget(self) -> BudgetCurves:
        """The best predictions for each budget at which trees were replayed, otherwise by the rates for every budget
        within the limits. A loaded plan by rates searches again to compute them.
        """
        if self.tried is not None:
            return self.tried.curves(self.latency, self.context)
        candidates = Candidates(self.acceptance, self.limits, classes=self.classes)
        return curves_of(candidates, candidates.speedups(self.latency, self.context))


def answer_of(tree: Tree) -> str:
    """`off` for the root alone, otherwise `chain` or `tree`."""
    if tree.budget == 0:
        return "off"
    return "chain" if tree.is_chain else "tree"
