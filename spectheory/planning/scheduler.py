"""`schedule`, the search for the fastest choice at each batch size, and `schedule_of`, one plan as a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.assumptions import assumptions_of
from spectheory.planning.batch_ranges import spans
from spectheory.planning.by_rates import ByRates
from spectheory.planning.candidates import Candidates, Limits, Progress, ignore_progress
from spectheory.planning.confidence_search import Drafted, confidence_of, without_inputs
from spectheory.planning.plan_record import Plan
from spectheory.planning.replayed_choice import ReplayedChoice
from spectheory.planning.replayed_options import paying
from spectheory.planning.replayed_tree import ReplayedTree, replayed_tree
from spectheory.planning.schedule_checks import check_batches
from spectheory.planning.schedule_record import Schedule
from spectheory.planning.tried_trees import TriedTrees, require_one_source
from spectheory.replay import Replays
from spectheory.yields import RequestClasses


def schedule(
    acceptance: Acceptance,
    latency_at: Callable[[int], Latency],
    batches: Sequence[int],
    *,
    context: int,
    max_budget: int = 64,
    max_depth: int | None = None,
    max_fanout: int | None = None,
    classes: RequestClasses | None = None,
    replays: Replays | None = None,
    progress: Progress = ignore_progress,
) -> Schedule:
    """Find the fastest choice at every batch size. Trees are searched once and timed at each batch size.

    Args:
        acceptance: rates by depth and rank.
        latency_at: function from a batch size to its forward times.
        batches: increasing batch sizes.
        context: number of tokens in the KV cache of each sequence, within the measured contexts of every latency.
        max_budget: maximum number of drafted nodes of a sequence.
        max_depth: depth of the deepest drafted node; None sets no limit.
        max_fanout: maximum number of children of a node; None sets no limit.
        classes: classes of contexts that predict tau, as in `spectheory.plan`.
        replays: texts of a trace, on which the candidates are replayed with each verifier; None predicts tau from the
            rates.
        progress: callback to which the search reports its progress.

    Raises:
        InputError: `batches` is empty, not increasing whole numbers from 1 on, or more than `MOST_BATCHES`; `context`
            is outside the measured contexts, or a limit is below 1.
    """
    check_batches(batches)
    limits = Limits(max_budget, max_depth, max_fanout)
    require_one_source(replays, classes)
    candidates = Candidates(acceptance, limits, progress, classes)
    latencies = tuple(latency_at(int(batch)) for batch in batches)
    if replays is not None:
        return _replayed_schedule(ReplayedChoice(replays, candidates, progress), latencies, np.array(batches), context)
    speedups = [candidates.speedups(latency, context) for latency in latencies]
    chains = np.unique(candidates.chains)
    best = [candidates.fastest(row) for row in speedups]
    best_chain = [candidates.fastest(row, chains) for row in speedups]
    used, index = np.unique([best, best_chain], return_inverse=True)
    choice, chain_choice = index.reshape(2, -1)
    trees = tuple(candidates.tree(i) for i in used)
    rates = ByRates(acceptance, classes)
    stamp = _provenance(rates, trees, latencies, np.array(batches), None)
    drafted = Drafted.of(trees, [rates.tau(tree) for tree in trees], [None] * len(trees), context)
    confidence = confidence_of(latencies, drafted)
    rows = np.array(batches), without_inputs(latencies), trees, choice, chain_choice
    return Schedule(acceptance, context, *rows, limits, stamp, classes=classes, confidence=confidence)


def _replayed_schedule(
    choices: ReplayedChoice, latencies: tuple[Latency, ...], batches: np.ndarray, context: int
) -> Schedule:
    """The schedule whose trees and verifiers are chosen by replay."""
    acceptance, limits = choices.candidates.acceptance, choices.candidates.limits
    proposed = [choices.fastest_candidate(latency, context) for latency in latencies]
    best = list(dict.fromkeys(one for one in proposed if one))
    chains = [one for one in choices.options.known if one.tree.is_chain]
    pairs = [tuple(paying(among, latency, context) for among in (best, chains)) for latency in latencies]
    used = list(dict.fromkeys(option for pair in pairs for option in pair))
    choice, chain_choice = np.array([[used.index(option) for option in pair] for pair in pairs]).T
    trees = tuple(option.tree if option else Tree.chain(0) for option in used)
    tried = TriedTrees.of(dict.fromkeys((*chains, *(option for option in used if option))))
    verified = [option and ReplayedTree.of(option, choices.replays) for option in used]
    verifiers = tuple(one and one.verifier for one in verified)
    tau = [one.replayed.tau if one else 1.0 for one in verified]
    return Schedule(
        acceptance=acceptance,
        context=context,
        batches=batches,
        latencies=without_inputs(latencies),
        trees=trees,
        choice=choice,
        chain_choice=chain_choice,
        limits=limits,
        provenance=_provenance(ByRates(acceptance), trees, latencies, batches, tried),
        verifiers=verifiers,
        rules=tuple(one and one.rule for one in verified),
        replayed=tuple(one and one.replayed for one in verified),
        tried=tried,
        confidence=confidence_of(latencies, Drafted.of(trees, tau, verifiers, context)),
    )


def schedule_of(plan: Plan) -> Schedule:
    """A plan as a schedule of one batch size (the batch size of its latency), with its tree and its fastest chain."""
    own = replayed_tree(plan.tree, plan.verifier, plan.rule, plan.replayed)
    if plan.tree.is_chain:
        used = [(plan.tree, own)]
    elif plan.tried is not None:
        used = [(plan.tree, own), (plan.chain.tree if plan.chain else Tree.chain(0), plan.chain)]
    else:
        used = [(plan.tree, None), (Tree.chain(plan.by_budget.fastest_chain), None)]
    verified = [one for _, one in used] if plan.tried is not None else []
    return Schedule(
        acceptance=plan.acceptance,
        context=plan.context,
        batches=np.array([plan.latency.batch]),
        latencies=without_inputs([plan.latency]),
        trees=tuple(tree for tree, _ in used),
        choice=np.array([0]),
        chain_choice=np.array([len(used) - 1]),
        limits=plan.limits,
        provenance=plan.provenance,
        verifiers=tuple(one and one.verifier for one in verified),
        rules=tuple(one and one.rule for one in verified),
        replayed=tuple(one and one.replayed for one in verified),
        tried=plan.tried,
        searched=False,
        classes=plan.classes,
        confidence=plan.confidence,
    )


def _provenance(
    rates: ByRates,
    trees: Sequence[Tree],
    latencies: Sequence[Latency],
    batches: np.ndarray,
    tried: TriedTrees | None,
) -> Provenance:
    """The merged provenance of the latencies. Assumptions that hold at some batch sizes only name these sizes."""
    stamp = Provenance.merged([latency.provenance for latency in latencies])
    said = []
    for sentence in assumptions_of(rates, trees, latencies, tried):
        holds = np.array([sentence in latency.provenance.assumptions for latency in latencies])
        partly = holds.any() and not holds.all() and sentence not in rates.acceptance.provenance.assumptions
        said.append(f"at batch {spans(batches, holds)}: {sentence}" if partly else sentence)
    return stamp.replace(assumptions=tuple(dict.fromkeys(said)))
