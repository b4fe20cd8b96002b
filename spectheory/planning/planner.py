"""`plan` and `schedule`: the fastest tree, chain or no speculation. `evaluate`: the predictions for your own tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import checked
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance, model_name
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.candidates import MAX_BUDGET, ByRates, Candidates, Limits, Progress, ignore_progress
from spectheory.planning.confidence import confidence_of, spans
from spectheory.planning.replayed import ReplayedChoice, ReplayedOptions, fastest
from spectheory.planning.schedule_record import OFF, Option, Schedule, check_batches
from spectheory.replay import Replays
from spectheory.verify import Greedy, name_of
from spectheory.yields.request_classes import ASSUMED

PRODUCT = "tau is a product of rates: a rate depends on depth and rank alone, whatever the verifier"
"""What a prediction from a table of rates assumes, and a replayed one does not."""


@checked
def plan(
    acceptance: Acceptance,
    latency: Latency,
    *,
    max_budget: int = MAX_BUDGET,
    max_depth: int | None = None,
    max_fanout: int | None = None,
    context: int | None = None,
    replays: Replays | None = None,
    progress: Progress = ignore_progress,
) -> Schedule:
    """The tree, the chain or no speculation, whichever has the highest predicted speedup over plain decoding.

    For each budget up to `max_budget`, each depth limit and each width limit, the tree of highest block efficiency is
    timed. `Candidates` documents how close this is to a search over all trees. With recorded texts, tree and verifier
    are chosen together: see `ReplayedChoice`. Without, tau is predicted from classes of contexts if the rates have
    counts of the cycles of one tree (`Acceptance.cycles_of`) and classes fit them, and otherwise as a product of rates.

    Args:
        acceptance: rates by depth and rank.
        latency: forward times.
        max_budget: largest number of drafted nodes.
        max_depth: depth of the deepest drafted node; None sets no limit.
        max_fanout: largest number of children of a node; None sets no limit.
        context: tokens in the KV cache; defaults to the middle of the measured contexts.
        replays: texts of a trace, on which trees and verifiers are replayed; None predicts tau from the rates.
        progress: callback to which the search reports its progress.

    Returns:
        A schedule of one batch size, the batch size of `latency`.

    Raises:
        InputError: `max_budget`, `max_depth` or `max_fanout` is below 1, the search does not fit into memory, `context`
            is outside the measured contexts, or the texts are too short to replay any tree.
    """
    return schedule(
        acceptance,
        lambda _: latency,
        [latency.batch],
        context=latency.context_of(context),
        max_budget=max_budget,
        max_depth=max_depth,
        max_fanout=max_fanout,
        replays=replays,
        progress=progress,
    )


@checked
def schedule(
    acceptance: Acceptance,
    latency_at: Callable[[int], Latency],
    batches: Sequence[int],
    *,
    context: int,
    max_budget: int = MAX_BUDGET,
    max_depth: int | None = None,
    max_fanout: int | None = None,
    replays: Replays | None = None,
    progress: Progress = ignore_progress,
) -> Schedule:
    """What `plan` chooses at every batch size. Trees are searched once and timed at each batch size.

    `latency_at` is a function from a batch size to its forward times. `context` must be within the measured contexts of
    all of them. The other arguments are those of `plan`.

    Raises:
        InputError: `batches` is empty, not increasing whole numbers from 1 on, or more than `MOST_BATCHES`; `context`
            is outside the measured contexts, a limit is below 1, or the rates are of a share of the steps.
    """
    check_batches(batches)
    if (acceptance.drafted_share or 1) < 1:
        raise InputError(
            f"acceptance holds for the {acceptance.drafted_share:.1%} of steps that draft, these seconds for steps "
            "that all do: plan as `spectheory schedule --draft ngram` does, or take acceptance.of_all_steps"
        )
    limits, latencies = Limits(max_budget, max_depth, max_fanout), [latency_at(int(batch)) for batch in batches]
    rates = ByRates.of(acceptance) if replays is None else ByRates(acceptance)
    if wrong := [latency for latency in latencies if not isinstance(latency, Latency)]:
        raise InputError(f"latency_at must return a Latency, got {wrong[0]!r:.80}")
    found = Candidates(acceptance, limits, progress, rates.classes)
    if replays is None:
        options: dict[int, Option] = {0: OFF}
        rows, lengths = [], np.unique(found.chains)
        for latency in latencies:
            speedups = found.speedups(latency, context)
            best = found.fastest(speedups), found.fastest(speedups, lengths)
            options |= {number: Option(found.tree(number)) for number in best if number not in options}
            rows.append((options[best[0]], options[best[1]]))
        return _schedule(rates, latencies, batches, context, limits, rows)
    choice, rows = ReplayedChoice(replays, found, progress), []
    for latency in latencies:
        best = choice.fastest(latency, context)
        rows.append((best, fastest([OFF, *choice.options.known_chains], rates, latency, context)))
    reached = {option: choice.options.with_reach(option) for option in dict.fromkeys(best for best, _ in rows)}
    kept = _fastest_of_each_length(choice.options.known_chains, rates, latencies, context)
    rows = [(reached[best], reached.get(chain, chain)) for best, chain in rows]
    return _schedule(rates, latencies, batches, context, limits, rows, kept)


@checked
def evaluate(
    tree: Tree, acceptance: Acceptance, latency: Latency, *, context: int | None = None, replays: Replays | None = None
) -> Schedule:
    """A plan with your own tree, for its predictions, and with the fastest chain that is not larger.

    Args:
        tree: the tree that every cycle drafts; `Tree.chain(0)` means no speculation.
        acceptance: rates by depth and rank.
        latency: forward times.
        context: tokens in the KV cache; defaults to the middle of the measured contexts.
        replays: texts of a trace, on which the tree is replayed with the fastest verifier; None predicts tau from the
            rates, as in `plan`.

    Raises:
        InputError: `context` is outside the measured contexts, or the tree cannot be replayed on the texts.

    >>> rates, times = Acceptance.by_rank([0.6, 0.2]), Latency.constant(draft_seconds=0.1)
    >>> round(evaluate(Tree.chain(2), rates, times).speedup, 3)
    1.633
    """
    context, limits = latency.context_of(context), Limits(max(1, tree.budget))
    if replays is None:
        rates = ByRates.of(acceptance)
        own, chains = Option(tree), [Option(Tree.chain(length)) for length in range(1, limits.longest_chain + 1)]
    else:
        rates = ByRates(acceptance)
        replayed = ReplayedOptions(replays, rates)
        chains = replayed.chains(limits.longest_chain)
        options = replayed.of(tree) if tree.budget else [OFF]
        own = replayed.with_reach(fastest(options, rates, latency, context))
    chain = own if tree.is_chain else fastest([OFF, *chains], rates, latency, context)
    rows = [(own, chain)]
    kept = _fastest_of_each_length(chains, rates, [latency], context) if replays else []
    return _schedule(rates, [latency], [latency.batch], context, limits, rows, kept)


def _fastest_of_each_length(
    chains: Sequence[Option], rates: ByRates, latencies: Sequence[Latency], context: int
) -> list[Option]:
    """The replayed chains that are the fastest of their length at some batch size."""
    found = []
    for length in sorted({chain.tree.budget for chain in chains}):
        same = [chain for chain in chains if chain.tree.budget == length]
        found += [fastest(same, rates, latency, context) for latency in latencies]
    return list(dict.fromkeys(found))


def _schedule(
    rates: ByRates,
    latencies: Sequence[Latency],
    batches: Sequence[int],
    context: int,
    limits: Limits,
    rows: Sequence[tuple[Option, Option]],
    kept: Sequence[Option] = (),
) -> Schedule:
    """The record of the fastest option and the fastest chain at each batch size; `kept` are chains beside them."""
    chosen = list(dict.fromkeys(option for row in rows for option in row))
    options = list(dict.fromkeys([*chosen, *kept]))
    choice, chain_choice = np.array([[options.index(option) for option in row] for row in rows]).T
    stamp = Provenance.merged([latency.provenance for latency in latencies])
    said = []
    for sentence in _assumptions(rates, latencies, options, chosen):
        holds = np.array([sentence in latency.provenance.assumptions for latency in latencies])
        partly = holds.any() and not holds.all() and sentence not in rates.acceptance.provenance.assumptions
        said.append(f"at batch {spans(np.array(batches), holds)}: {sentence}" if partly else sentence)
    return Schedule(
        acceptance=rates.acceptance,
        context=context,
        batches=np.array(batches),
        latencies=tuple(replace(latency, inputs=None) for latency in latencies),
        options=tuple(options),
        choice=choice,
        chain_choice=chain_choice,
        limits=limits,
        provenance=stamp.replace(assumptions=tuple(dict.fromkeys(said))),
        confidence=confidence_of(latencies),
    )


def _assumptions(
    rates: ByRates, latencies: Sequence[Latency], options: Sequence[Option], chosen: Sequence[Option]
) -> Iterator[str]:
    """What the predictions assume about the rates and about the times, one sentence each.

    Of the rates, replayed predictions assume nothing: they only propose trees.
    """
    stamp = rates.acceptance.provenance
    if other := other_models(stamp, latencies[0].provenance):
        yield other
    if not any(option.replayed for option in options):
        deepest, known = max(option.tree.max_depth for option in chosen), rates.acceptance.depths
        yield from stamp.assumptions
        if deepest and rates.unfit:
            yield f"tau is a product of rates, because no classes of contexts fit their counts: {rates.unfit}"
        elif deepest:
            yield PRODUCT if rates.classes is None else ASSUMED
        if deepest > known:
            below = "use the rates of that depth" if rates.classes is None else "assume that each class keeps its rate"
            yield (
                f"rates are known only down to depth {known}: deeper nodes {below}, in trees and chains down to depth "
                f"{deepest}"
            )
    for latency in latencies:
        yield from latency.provenance.assumptions
    for timed in dict.fromkeys(latency.provenance.sampling for latency in latencies):
        if stamp.sampling and timed and timed != stamp.sampling:
            yield f"the overheads were measured at {timed}, and are used for decoding at {stamp.sampling}"
    sampled = sorted({option.verifier for option in options if option.verifier} - {name_of(Greedy())})
    names = [name for name in sampled if any(name not in latency.verifier_seconds for latency in latencies)]
    if names:
        yield (
            f"the overheads of {', '.join(names)} were not measured: these verifiers are timed with the overheads of "
            "the latency record, which are the same for all of them"
        )


def other_models(rates: Provenance, use: Provenance) -> str:
    """Of which models the rates and what uses them are, if they name different ones; otherwise ""."""
    named = [(getattr(rates, role), getattr(use, role)) for role in ("target", "draft")]
    differing = [both for both in named if all(both) and Path(both[0]).resolve() != Path(both[1]).resolve()]
    if not differing:
        return ""
    measured, used = (" and ".join(map(model_name, names)) for names in zip(*differing, strict=True))
    return f"rates were measured with {measured} and are used with {used}"
