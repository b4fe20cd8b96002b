"""`plan` and `evaluate`: the fastest tree, chain or no speculation, and the predictions for a tree of your own."""

from __future__ import annotations

from dataclasses import dataclass

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.assumptions import assumptions_of
from spectheory.planning.budget_curves import curves_of
from spectheory.planning.by_rates import ByRates
from spectheory.planning.candidates import Candidates, Limits, Progress, ignore_progress
from spectheory.planning.confidence_search import Drafted, confidence_of
from spectheory.planning.plan_record import Plan
from spectheory.planning.replayed_choice import ReplayedChoice
from spectheory.planning.replayed_options import Option, ReplayedOptions, fastest, paying
from spectheory.planning.replayed_tree import ReplayedTree
from spectheory.planning.tried_trees import TriedTrees, require_one_source, worth_keeping
from spectheory.replay import Replays
from spectheory.yields import RequestClasses


def plan(
    acceptance: Acceptance,
    latency: Latency,
    *,
    max_budget: int = 64,
    max_depth: int | None = None,
    max_fanout: int | None = None,
    context: int | None = None,
    classes: RequestClasses | None = None,
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
        classes: classes of contexts fitted to the counts of the rates, which then predict tau in place of the product
            of rates; not together with `replays`.
        replays: texts of a trace, on which trees and verifiers are replayed; None predicts tau from the rates.
        progress: callback to which the search reports its progress.

    Raises:
        InputError: `max_budget`, `max_depth` or `max_fanout` is below 1, the search does not fit into memory, `context`
            is outside the measured contexts, or the texts are too short to replay any tree.
    """
    require_one_source(replays, classes)
    context = latency.context_of(context)
    limits = Limits(max_budget, max_depth, max_fanout)
    candidates = Candidates(acceptance, limits, progress, classes)
    speedups = candidates.speedups(latency, context)
    terms = _Terms(ByRates(acceptance, classes), latency, context, limits, "spectheory.plan")
    if replays is not None:
        choice = ReplayedChoice(replays, candidates, progress)
        return terms.by_replay(choice.fastest(latency, context), choice.options)
    made = terms.by_rates(candidates.tree(candidates.fastest(speedups)))
    vars(made)["by_budget"] = curves_of(candidates, speedups)  # the cached property would search again
    return made


def evaluate(
    tree: Tree,
    acceptance: Acceptance,
    latency: Latency,
    *,
    context: int | None = None,
    classes: RequestClasses | None = None,
    replays: Replays | None = None,
    verifier: str | None = None,
) -> Plan:
    """A plan with your own tree, for its predictions. Nothing is searched.

    Args:
        tree: the tree that every cycle drafts; `Tree.chain(0)` means no speculation.
        acceptance: rates by depth and rank.
        latency: forward times.
        context: tokens in the KV cache; defaults to the middle of the measured contexts.
        classes: classes of contexts that predict tau, as in `plan`.
        replays: texts of a trace, on which the tree is replayed; None predicts tau from the rates.
        verifier: the name of the verifier that is replayed; None means the fastest one.

    Raises:
        InputError: `context` is outside the measured contexts, the tree cannot be replayed on the texts or with this
            verifier, or a verifier is named without texts or for a tree without drafted nodes.

    >>> rates, times = Acceptance.by_rank([0.6, 0.2]), Latency.constant(draft_seconds=0.1)
    >>> round(evaluate(Tree.chain(2), rates, times).speedup, 3)
    1.633
    """
    context, limits = latency.context_of(context), Limits(max(1, tree.budget))
    if verifier is not None and not isinstance(verifier, str):
        raise InputError(f"verifier must be a name, such as 'Traversal', got {verifier!r:.60}")
    if verifier is not None and replays is None:
        raise InputError(f"verifier {verifier!r} needs replays: rates alone do not tell verifiers apart")
    if verifier is not None and not tree.budget:
        raise InputError(f"verifier {verifier!r:.60} needs a tree with drafted nodes, got {tree}")
    require_one_source(replays, classes)
    terms = _Terms(ByRates(acceptance, classes), latency, context, limits, "spectheory.evaluate")
    if replays is None:
        return terms.by_rates(tree)
    options = ReplayedOptions(replays)
    options.chains(limits.longest_chain)
    if not tree.budget:
        return terms.by_replay(None, options)
    own = options.of(tree) if verifier is None else options.of_verifier(tree, verifier)
    return terms.by_replay(fastest(own, latency, context), options)


@dataclass(frozen=True)
class _Terms:
    """What a plan is made from, except its tree. `source` is the function that makes it."""

    rates: ByRates
    latency: Latency
    context: int
    limits: Limits
    source: str

    def by_rates(self, tree: Tree) -> Plan:
        """The plan of a tree, predicted from the rates."""
        return self._plan(tree, self.rates.tau(tree))

    def by_replay(self, best: Option | None, options: ReplayedOptions) -> Plan:
        """The plan of the option `best`, or of no speculation if it is None, with what else was replayed."""
        latency, context, tree = self.latency, self.context, best.tree if best else Tree.chain(0)
        tried = TriedTrees.of(worth_keeping(options.known, best, latency, context))
        chain = paying((one for one in options.known if one.tree.is_chain), latency, context)
        chosen, fastest_chain = (one and ReplayedTree.of(one, options.replays) for one in (best, chain))
        return self._plan(tree, chosen.replayed.tau if chosen else 1.0, chosen, fastest_chain, tried)

    def _plan(
        self,
        tree: Tree,
        tau: float,
        chosen: ReplayedTree | None = None,
        chain: ReplayedTree | None = None,
        tried: TriedTrees | None = None,
    ) -> Plan:
        times, verifier = self.latency.provenance, chosen and chosen.verifier
        stamp = Provenance.now(
            self.source, target=times.target, draft=times.draft, batch=times.batch, **times.placement
        )
        return Plan(
            tree=tree,
            acceptance=self.rates.acceptance,
            latency=self.latency,
            context=self.context,
            limits=self.limits,
            provenance=stamp.assuming(*assumptions_of(self.rates, [tree], [self.latency], tried)),
            verifier=verifier,
            rule=chosen and chosen.rule,
            replayed=chosen and chosen.replayed,
            chain=chain,
            tried=tried,
            classes=self.rates.classes,
            confidence=confidence_of([self.latency], Drafted.of([tree], [tau], [verifier], self.context)),
        )
