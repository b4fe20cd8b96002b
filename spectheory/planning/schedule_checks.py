"""The checks of a schedule: its batch sizes, its latencies, what was replayed, its choices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.replayed_tree import replayed_tree
from spectheory.planning.tried_trees import TriedTrees, require_tried
from spectheory.replay import Replayed

MOST_BATCHES = 10_000
"""Maximum number of batch sizes of one schedule. Every candidate is timed at each of them."""
SLACK = 1e-9
"""Relative difference of two speeds that rounding explains."""


def check_batches(batches: Sequence[int] | np.ndarray) -> None:
    """Refuse batch sizes that are not increasing whole numbers from 1 on, and more than `MOST_BATCHES` of them."""
    if len(batches) > MOST_BATCHES:
        raise InputError(
            f"batches must have at most {MOST_BATCHES:,} sizes, got {len(batches):,}: leave some out between the first "
            "and the last"
        )
    whole = np.asarray(batches).dtype.kind in "iu"
    if not len(batches) or not whole or batches[0] < 1 or (np.diff(batches) <= 0).any():
        raise InputError(f"batches must be increasing whole numbers from 1 on, got {list(batches)[:8]}")


def check_latencies(latencies: Sequence[Latency], batches: np.ndarray, context: int) -> None:
    """Check that there is a latency for each batch size, and that those that name their batch size are in order."""
    if len(latencies) != len(batches):
        raise InputError(f"latencies must have one entry for each of the {len(batches)} batches, got {len(latencies)}")
    for latency in latencies:
        latency.context_of(context)
    named = [latency.provenance.batch for latency in latencies if latency.provenance.batch is not None]
    if any(later < earlier for earlier, later in itertools.pairwise(named)):
        raise InputError(f"latencies must be in the order of the batches, got latencies of batches {named!s:.60}")


def check_index(name: str, index: np.ndarray, batches: int, trees: int) -> None:
    """Check that `index` holds the index of a tree for each batch size."""
    within = np.shape(index) == (batches,) and index.dtype.kind in "iu" and trees
    if not within or index.min() < 0 or index.max() >= trees:
        raise InputError(
            f"{name} must hold, for each of the {batches} batch sizes, the index of one of the {trees} trees, counted "
            f"from 0, got {np.asarray(index).tolist()!s:.60}"
        )


def check_replayed(
    trees: Sequence[Tree],
    verifiers: Sequence[str | None],
    rules: Sequence[str | None],
    replayed: Sequence[Replayed | None],
    tried: TriedTrees | None,
) -> None:
    """Check that either every tree with drafted nodes was replayed or none was, as it is among those tried."""
    named = verifiers, rules, replayed
    if not any(named):
        require_tried(tried, [(tree, None) for tree in trees])
        return
    if {len(entries) for entries in named} != {len(trees)}:
        raise InputError(
            f"verifiers, rules and replayed must have an entry for each of the {len(trees)} trees, got "
            f"{', '.join(str(len(entries)) for entries in named)}"
        )
    rows = zip(trees, verifiers, rules, replayed, strict=True)
    used = [(tree, replayed_tree(tree, verifier, rule, one)) for tree, verifier, rule, one in rows]
    if tried is None:
        raise InputError(
            "tried must be given together with verifiers, rules and replayed: make the schedule with a trace"
        )
    require_tried(tried, used)


def check_choices(
    choices: Mapping[str, Int[np.ndarray, " batches"]],
    trees: Sequence[Tree],
    tau: Float[np.ndarray, " trees"],
    verifiers: Sequence[str | None],
    latencies: Sequence[Latency],
    batches: Int[np.ndarray, " batches"],
    context: int,
) -> None:
    """Check that neither a tree of the schedule nor plain decoding is faster than its `choice`, nor a chain than its
    `chain_choice`.
    """
    known, verified = (*trees, Tree.chain(0)), (*verifiers, None)
    speeds = speeds_of(known, np.append(tau, 1.0), verified, latencies, context)
    chains = np.array([tree.is_chain for tree in known])
    for name, among in (("choice", chains | True), ("chain_choice", chains)):
        check_fastest(name, choices[name], np.where(among, speeds, 0), known, batches)


def speeds_of(
    trees: Sequence[Tree],
    tau: Float[np.ndarray, " trees"],
    verifiers: Sequence[str | None],
    latencies: Sequence[Latency],
    context: int,
) -> Float[np.ndarray, "batches trees"]:
    """Tokens per second of each tree with its verifier, at each latency."""
    budgets, rows = [tree.budget for tree in trees], [tree.level_widths() for tree in trees]
    widths = np.array([np.pad(row, (0, max(map(len, rows)) - len(row))) for row in rows])
    depths, found = [tree.max_depth for tree in trees], []
    for latency in latencies:
        draft, target = latency.curves(max(budgets) + 1, context)
        overheads = [latency.overhead(tree, verifier) for tree, verifier in zip(trees, verifiers, strict=True)]
        by_tokens = np.append(0, draft)
        drafting = by_tokens[depths] if latency.drafts_at_once else by_tokens[widths].sum(1)
        prompts = latency.prompts(tau, np.array(budgets) > 0)
        found.append(tau / (drafting + target[budgets] + overheads + prompts))
    return np.array(found)


def check_fastest(
    name: str,
    choice: Int[np.ndarray, " batches"],
    speeds: Float[np.ndarray, "batches trees"],
    trees: Sequence[Tree],
    batches: Int[np.ndarray, " batches"],
) -> None:
    """Check that the chosen tree is the fastest at each batch size, by its `speeds`."""
    chosen = speeds[np.arange(len(choice)), choice]
    if (slower := chosen < (1 - SLACK) * speeds.max(1)).any():
        row = int(slower.argmax())
        raise InputError(
            f"{name} must hold the fastest, but at batch {batches[row]} {trees[int(speeds[row].argmax())]} is faster "
            f"than {trees[int(choice[row])]}"
        )
