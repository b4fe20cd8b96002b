"""`diagnose`: why speculation on a server is as fast as it is, from its log or its metrics.

The seconds per token of a sequence are (draft + verification + overhead) / tau, plus the prompts that are read in
between: `cycle_parts` finds them, and `speed_factors` compares each with its usual value.
"""

from __future__ import annotations

from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.engines.cycle_parts import (
    CycleParts,
    Times,
    cycle_parts,
    cycle_seconds,
    drafted_tree,
    fits,
    forward_times,
)
from spectheory.engines.observed import Advice, Observed
from spectheory.engines.speed_factors import Usual, accepted_tokens, factors_of, rates_by_position
from spectheory.hardware.latency import Latency
from spectheory.results.diagnosis import Diagnosis

LONGEST = 32
"""Largest number of drafted tokens that is tried as the fastest."""
GIVE_TIMES = (
    "give forward times: --gpu, --target and --draft for computed ones, --costs for ones calibrated on this server, or "
    "--latency with the record of `spectheory profile`"
)
GIVE_BATCH = "give the number of sequences that decode together (--batch)"
GIVE_FITTING = "calibrate the forward times on this server (spectheory calibrate), and give them with --costs"


def diagnosed(
    seen: Observed,
    advice: Advice,
    *,
    plain: Observed | None = None,
    times: Times | None = None,
    context: int | None = None,
    usual: Usual | None = None,
) -> Diagnosis:
    """The diagnosis of one observed model; see `spectheory.diagnose`."""
    usual = Usual() if usual is None else usual
    stamp = Provenance.now("spectheory.diagnose", settings={"report": seen.kind})
    if seen.statistics is None:
        said = "nothing was drafted, so there is nothing to diagnose: is speculation configured, or off at this load?"
        return Diagnosis(
            seen.engine, seen.kind, seen.model, 1.0, 0.0, 0, seen.batch, seen.step_seconds, seen.step_seconds,
            None, None, None, (), notes=(*seen.notes, said), provenance=stamp,
        )  # fmt: skip
    notes = list(seen.notes)
    tree = drafted_tree(seen, notes)
    latency, alone, at = forward_times(times, seen, context, notes)
    wanted = GIVE_TIMES if times is None else GIVE_BATCH
    if latency is not None and tree is not None and not fits(seen, latency, at, tree, notes):
        latency, wanted = None, GIVE_FITTING
    parts = cycle_parts(seen, plain, latency, alone, at, tree, notes)
    factors = factors_of(seen, parts, tree, advice, usual, wanted)
    length, gain = _fastest(seen, parts, latency, at, tree)
    return Diagnosis(
        seen.engine,
        seen.kind,
        seen.model,
        seen.tau,
        seen.nodes,
        None if tree is None else tree.max_depth,
        seen.batch,
        cycle_seconds(seen, parts),
        None if parts.plain is None else parts.plain + parts.prompts[1],
        parts.draft,
        parts.verification,
        parts.overhead,
        factors,
        length,
        gain,
        "" if length is None else _setting(advice, length),
        tuple(dict.fromkeys(notes)),
        stamp if latency is None else stamp.assuming(*latency.provenance.assumptions),
    )


def _setting(advice: Advice, length: int) -> str:
    if length == 0:
        return "no speculation at this load"
    return advice.length.format(length=length, nodes=length + 1)


def _fastest(
    seen: Observed, parts: CycleParts, latency: Latency | None, at: int, tree: Tree | None
) -> tuple[int | None, float | None]:
    """The fastest number of drafted tokens, and how many times as fast as now it is; None, None if it is unknown.

    The rate of the last measured position is used for deeper positions. Overheads beyond those of the forward times
    stay as they are.
    """
    rates = rates_by_position(seen, tree)
    if latency is None or tree is None or rates is None or not tree.is_chain or parts.plain is None:
        return None, None
    extra = (parts.overhead or 0.0) - latency.overhead(tree)
    scale = 1.0 if not seen.draft_seconds else seen.draft_seconds / max(latency.draft_levels(tree, at), 1e-30)
    longest = min(LONGEST, 2 * tree.budget, int(latency.tokens[-1]) - 1)

    def per_token(length: int) -> float:
        chain, known = Tree.chain(length), [*rates, *[rates[-1]] * length][:length]
        work = scale * latency.draft_levels(chain, at) + latency.target(length + 1, at) + latency.overhead(chain)
        return (work + extra) / (1 + accepted_tokens(known)) + parts.prompts[0]

    seconds = {0: parts.plain + parts.prompts[1]} | {n: per_token(n) for n in range(1, longest + 1)}
    best = min(seconds, key=seconds.__getitem__)
    return best, per_token(tree.budget) / seconds[best]
