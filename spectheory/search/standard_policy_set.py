"""`standard_policies`: the policies as published and as engines run them, static trees and chains, to be compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectheory.core.checks import check_budget
from spectheory.core.machine import require_memory
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
"""Bytes of memory that the policies need, per squared budget; measured for budgets up to 4,000."""
BATCH = 10
"""Maximum number of nodes in a draft call: the value of SALF & TALF, also used for one of the SpecExec policies."""
ENGINES = ((8, 10), (5, 4))
"""Layers and top_k of EAGLE-2: `depth=7, top_k=10` in the EAGLE repository; 5 steps, topk 4 in SGLang for Llama."""


def standard_policies(
    drafts: DraftModel | Sequence[DraftModel],
    budget: int,
    *,
    latency: Latency | None = None,
    context: int | None = None,
) -> dict[str, Policy]:
    """Policies of one budget, by name, for `compare_policies` on the same drafts.

    - SpecExec with batches of the budget (fewest draft calls), of 10 nodes, and of 1 node (fewest draft tokens).
    - SALF with threshold 0, as published, and filled up to the budget.
    - EAGLE-2 with the layers and the top_k of the EAGLE repository and of SGLang.
    - OPT-Tree, the best static tree of these drafts, and the chain.

    With a latency there are three more, named "at cost", which stop where more drafting would not pay:

    - OPT-Tree, where a layer is assumed to take the time of a draft forward as wide as the budget, or none if one
      forward drafts all layers.
    - The static tree, and the chain, of the depth with the highest mean tokens per second.

    Args:
        drafts: a draft model, or a sequence of them.
        budget: maximum number of drafted nodes, at least 1.
        latency: seconds of forwards, or None.
        context: tokens in the KV cache; the default is the middle context of the latency.

    Raises:
        InputError: there is no draft, the budget is out of range, or the budget needs more memory than is available.
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
    layer = 0.0 if latency.drafts_at_once else latency.draft(budget, at) + latency.level_overhead_seconds
    ratio = layer / (latency.target(budget + 1, at) + latency.overhead_seconds)
    by_depth = [Eagle2(budget, depth, budget).grow(mean) for depth in range(1, max(best.max_depth, 1) + 1)]
    fastest = max(by_depth, key=lambda drafted: latency.speedup(drafted.tree, drafted.expected, at)).tree
    tau = StaticTree(Tree.chain(budget)).grow(mean).probability.cumsum()
    length = int(np.argmax([latency.speedup(Tree.chain(n), float(tau[n]), at) for n in range(len(tau))]))
    return policies | {
        "OPT-Tree at cost": OptTreeAtCost(budget, ratio),
        "static at cost": StaticTree(fastest, budget),
        f"chain of {length} at cost": StaticTree(Tree.chain(length), budget),
    }
