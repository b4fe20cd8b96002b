"""Comparison of policies on the same drafts: the worth of each tree, its distance to the optimum, and its cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.checks import check_budget
from spectheory.core.errors import InputError
from spectheory.core.machine import require_memory
from spectheory.core.tree import Tree
from spectheory.search.draft_models import DraftModel
from spectheory.search.drafted_tree import Drafted
from spectheory.search.eagle2 import Eagle2
from spectheory.search.opt_tree import OptTree
from spectheory.search.salf import Salf
from spectheory.search.spec_exec import SpecExec
from spectheory.search.static_trees import MeanDraft, StaticTree, listed

PATHS_BYTES = 45
"""Bytes of memory that the policies need, per squared budget; measured for budgets up to 4,000."""
BATCH = 10
"""Maximum number of nodes in a draft call: the value of SALF & TALF, also used for one of the SpecExec policies."""
ENGINES = ((8, 10), (5, 4))
"""Layers and top_k of EAGLE-2: `depth=7, top_k=10` in the EAGLE repository; 5 steps, topk 4 in SGLang for Llama."""


class Policy(Protocol):
    """A policy: it grows a tree by calling a draft model."""

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        ...


@dataclass(frozen=True, eq=False)
class PolicyComparison:
    """The results of P policies on the same D drafts. Arrays have one row for each policy, one column for each draft.

    Attributes:
        names: the names of the policies.
        budget: maximum number of drafted nodes that the policy was allowed.
        nodes, depth: number of drafted nodes and depth of the tree; the root is not counted.
        draft_calls, draft_tokens: number of draft forwards, and number of nodes that they expanded in all.
        expected: E, the tokens per target call if the target accepts with the draft's probabilities.
        optimum: the highest E of any tree within the budget of that policy.
    """

    names: tuple[str, ...]
    budget: Int[np.ndarray, "policies drafts"]
    nodes: Int[np.ndarray, "policies drafts"]
    depth: Int[np.ndarray, "policies drafts"]
    draft_calls: Int[np.ndarray, "policies drafts"]
    draft_tokens: Int[np.ndarray, "policies drafts"]
    expected: Float[np.ndarray, "policies drafts"]
    optimum: Float[np.ndarray, "policies drafts"]

    @property
    def distance(self) -> Float[np.ndarray, "policies drafts"]:
        """Tokens per cycle that a tree lacks, compared with the best tree of its policy's budget; at least 0."""
        return np.maximum(self.optimum - self.expected, 0.0)

    @property
    def table(self) -> str:
        """One line for each policy: means over the drafts of E and of what it lacks, of its draft calls and tokens."""
        columns = [self.expected, self.distance, self.draft_calls, self.draft_tokens]
        rows = zip(self.names, *(one.mean(1) for one in columns), strict=True)
        lines = ["{:20} {:7.3f} {:7.3f} {:7.1f} {:8.1f}".format(*row) for row in rows]
        return "\n".join([f"{'policy':20} {'E':>7} {'short':>7} {'calls':>7} {'tokens':>8}", *lines])


def compare_policies(drafts: DraftModel | Sequence[DraftModel], policies: Mapping[str, Policy]) -> PolicyComparison:
    """Grow the tree of every policy on every draft, and compare the worth and the cost of the trees.

    The policies may have different budgets: each tree is compared with the best tree of its own policy's budget. A
    draft represents one context, and all drafts have the same weight. To compare two policies, take their difference
    on each draft first, then the mean, as `distance` does.

    Args:
        drafts: a draft model, or a sequence of them, such as a `MarkovDraft` for each last token.
        policies: policies by name: from `standard_policies`, or your own.

    Raises:
        InputError: there is no draft or no policy, or a draft returns something else than rows of falling
            probabilities.

    >>> from spectheory import Acceptance
    >>> from spectheory.search import OptTree, RatesDraft
    >>> draft = RatesDraft(Acceptance.by_rank([0.5, 0.25]))
    >>> found = compare_policies(draft, {"early": OptTree(4, threshold=0.8), "to the end": OptTree(4)})
    >>> found.distance.tolist(), found.draft_calls.tolist()
    ([[0.375], [0.0]], [[1], [3]])
    """
    asked = listed(drafts)
    if not isinstance(policies, Mapping) or not policies:
        raise InputError(
            f'policies must be a dictionary of policies by name, such as {{"OPT-Tree": OptTree(16)}}, got '
            f"{policies!r:.80}"
        )
    grown = [[policy.grow(draft) for draft in asked] for policy in policies.values()]

    @cache
    def best(draft: int, budget: int) -> float:
        return SpecExec(budget, batch=budget).grow(asked[draft]).expected

    def table(of: Callable[[Drafted], float]) -> np.ndarray:
        return np.array([[of(drafted) for drafted in row] for row in grown])

    return PolicyComparison(
        names=tuple(policies),
        budget=table(lambda drafted: drafted.budget),
        nodes=table(lambda drafted: drafted.tree.budget),
        depth=table(lambda drafted: drafted.tree.max_depth),
        draft_calls=table(lambda drafted: drafted.draft_calls),
        draft_tokens=table(lambda drafted: drafted.draft_tokens),
        expected=table(lambda drafted: drafted.expected),
        optimum=np.array([[best(d, drafted.budget) for d, drafted in enumerate(row)] for row in grown]),
    )


def standard_policies(drafts: DraftModel | Sequence[DraftModel], budget: int) -> dict[str, Policy]:
    """Policies of one budget, by name, for `compare_policies` on the same drafts.

    - SpecExec with batches of the budget (fewest draft calls), of 10 nodes, and of 1 node (fewest draft tokens).
    - SALF with threshold 0, as published, and filled up to the budget.
    - EAGLE-2 with the layers and the top_k of the EAGLE repository and of SGLang.
    - OPT-Tree, the best static tree of these drafts, and the chain.

    Args:
        drafts: a draft model, or a sequence of them.
        budget: maximum number of drafted nodes, at least 1.

    Raises:
        InputError: there is no draft, the budget is out of range, or the budget needs more memory than is available.
    """
    check_budget(budget)
    require_memory(lambda n: PATHS_BYTES * n * n, budget)
    mean = MeanDraft(drafts, budget)
    best = SpecExec(budget, batch=budget).grow(mean).tree
    return {
        **{f"SpecExec by {batch}": SpecExec(budget, batch) for batch in (budget, BATCH, 1)},
        "SALF, threshold 0": Salf(budget, 0.0, BATCH),
        "SALF": Salf(budget, batch=BATCH),
        "SALF, filled": Salf(budget, batch=BATCH, fill=True),
        **{f"EAGLE-2, {layers} by {top_k}": Eagle2(top_k, layers, budget) for layers, top_k in ENGINES},
        "OPT-Tree": OptTree(budget),
        "best static tree": StaticTree(best, budget),
        f"chain of {budget}": StaticTree(Tree.chain(budget)),
    }
