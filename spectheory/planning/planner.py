"""`plan` and `evaluate`: the fastest tree, chain or no speculation, and the predictions for a tree of your own."""

from __future__ import annotations

from dataclasses import replace

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.assumptions import assumptions_of
from spectheory.planning.candidates import Candidates, Limits, Progress, ignore_progress
from spectheory.planning.plan_record import Plan, curves_of
from spectheory.planning.replayed_choice import ReplayedChoice
from spectheory.planning.replayed_options import Option, ReplayedOptions, fastest
from spectheory.replay import Replays
from spectheory.verify import name_of


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
    vars(chosen)["by_budget"] = curves_of(candidates, speedups)  # the cached property would search again
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
        options = ReplayedOptions(replays)
        best = fastest(options.of(tree) if verifier is None else options.of_verifier(tree, verifier), latency, context)
    return _plan(tree, acceptance, latency, context, limits, "spectheory.evaluate", best)


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
