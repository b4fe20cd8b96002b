"""The policies that a comparison usually wants: as published, as engines run them, and static trees beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectheory.core.checks import check_budget
from spectheory.core.memory import require_memory
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.search.draft_models import DraftModel
from spectheory.search.eagle2 import Eagle2
from spectheory.search.opt_tree import OptTree, OptTreeAtCost
from spectheory.search.policy_comparison import Policy
from spectheory.search.salf import Salf
from spectheory.search.spec_exec import SpecExec
from spectheory.search.static_trees import MeanDraft, StaticTree

PATHS_BYTES = 45
"""For each budget squared, what growing the policies takes, mostly the paths of the chain: measured up to 4000."""
BATCH = 10
"""Nodes of a draft call in SALF & TALF, and here of SpecExec beside it."""
ENGINES = ((8, 10), (5, 4))
"""Layers and top_k of EAGLE-2: the EAGLE repository's `depth=7, top_k=10`; SGLang's 5 steps of topk 4 for Llama."""


def standard_policies(
    drafts: DraftModel | Sequence[DraftModel],
    budget: int,
    *,
    latency: Latency | None = None,
    context: int | None = None,
) -> dict[str, Policy]:
    """Policies for `compare_policies` on the same drafts, all of one budget.

    SpecExec by the budget, by 10 and by 1 nodes at a draft call, from the fewest calls to the fewest draft tokens; SALF
    without a threshold, as published, and filled up; EAGLE-2 with the layers and the top_k of `ENGINES`; OPT-Tree; the
    best static tree of the drafts; the chain. With a latency also what stops where drafting no longer pays: OPT-Tree,
    a layer taken as a draft forward as wide as the budget, and of all depths the static tree and the chain of most mean
    tokens per second.

    Args:
        drafts: a drafter, or a sequence of them.
        budget: most drafted nodes, at least 1.
        latency: seconds of forwards, or None.
        context: tokens in the KV cache, default the middle one of the latency.

    Raises:
        InputError: there is no draft, the budget is out of range, or needs more memory than there is.
    """
    check_budget(budget)
    require_memory(lambda n: PATHS_BYTES * n * n, budget)
    mean = MeanDraft(drafts, budget)
    best = SpecExec(budget, batch=budget).grow(mean).tree
    policies: dict[str, Policy] = {
        **{f"SpecExec by {batch}": SpecExec(budget, batch) for batch in (budget, BATCH, 1)},
        "SALF, threshold 0": Salf(budget, 0.0, BATCH),
        "SALF": Salf(budget, batch=BATCH),
        "SALF, filled": Salf(budget, batch=BATCH, fill=True),
        **{f"EAGLE-2, {layers} by {top_k}": Eagle2(top_k, layers, budget) for layers, top_k in ENGINES},
        "OPT-Tree": OptTree(budget),
        "best static tree": StaticTree(best, budget),
        f"chain of {budget}": StaticTree(Tree.chain(budget)),
    }
    if latency is None:
        return policies
    at = latency.context_of(context)
    layer = latency.draft(budget, at) + latency.level_overhead_seconds
    ratio = layer / (latency.target(budget + 1, at) + latency.overhead_seconds)
    by_depth = [Eagle2(budget, depth, budget).grow(mean) for depth in range(1, max(best.max_depth, 1) + 1)]
    fastest = max(by_depth, key=lambda drafted: drafted.expected / latency.cycle(drafted.tree, at)).tree
    tau = StaticTree(Tree.chain(budget)).grow(mean).probability.cumsum()
    length = int(np.argmax([tau[n] / latency.cycle(Tree.chain(n), at) for n in range(len(tau))]))
    return policies | {
        "OPT-Tree at cost": OptTreeAtCost(budget, ratio),
        "static at cost": StaticTree(fastest, budget),
        f"chain of {length} at cost": StaticTree(Tree.chain(length), budget),
    }
