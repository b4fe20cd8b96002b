"""Comparison of policies on the same drafts: the worth of each tree, its distance to the optimum, and its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from jaxtyping import Float

from spectheory.core.checks import check_budget
from spectheory.core.errors import InputError
from spectheory.core.machine import require_memory
from spectheory.core.tree import Tree
from spectheory.search.draft_models import Drafted, DraftModel
from spectheory.search.eagle2 import Eagle2
from spectheory.search.opt_tree import OptTree
from spectheory.search.salf import Salf
from spectheory.search.spec_exec import SpecExec
from spectheory.search.static_trees import StaticTree, best_static_tree, listed

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
    """The trees that P policies grew on the same D drafts.

    Attributes:
        drafted: for each policy by name, its tree on each draft.
        optimum: the highest `Drafted.expected` of any tree within the budget of that policy.
    """

    drafted: Mapping[str, tuple[Drafted, ...]]
    optimum: Float[np.ndarray, "policies drafts"]

    def of(self, name: str) -> Float[np.ndarray, "policies drafts"]:
        """A number of each `Drafted` by its name, such as `expected`, `draft_calls` or `draft_tokens`."""
        return np.array([[getattr(one, name) for one in row] for row in self.drafted.values()])

    @property
    def distance(self) -> Float[np.ndarray, "policies drafts"]:
        """Tokens per cycle that a tree lacks, compared with the best tree of its policy's budget; at least 0."""
        return np.maximum(self.optimum - self.of("expected"), 0.0)

    @property
    def table(self) -> str:
        """One line for each policy: means over the drafts of E and of what it lacks, of its draft calls and tokens."""
        columns = [self.of("expected"), self.distance, self.of("draft_calls"), self.of("draft_tokens")]
        rows = zip(self.drafted, *(one.mean(1) for one in columns), strict=True)
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
    >>> found.distance.tolist(), found.of("draft_calls").tolist()
    ([[0.375], [0.0]], [[1], [3]])
    """
    asked = listed(drafts)
    if not isinstance(policies, Mapping) or not policies:
        raise InputError(
            f'policies must be a dictionary of policies by name, such as {{"OPT-Tree": OptTree(16)}}, got '
            f"{policies!r:.80}"
        )
    grown = {name: tuple(policy.grow(draft) for draft in asked) for name, policy in policies.items()}

    @cache
    def best(draft: int, budget: int) -> float:
        return SpecExec(budget, batch=budget).grow(asked[draft]).expected

    optimum = np.array([[best(d, drafted.budget) for d, drafted in enumerate(row)] for row in grown.values()])
    return PolicyComparison(grown, optimum)


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
    return {
        **{f"SpecExec by {batch}": SpecExec(budget, batch) for batch in (budget, BATCH, 1)},
        "SALF, threshold 0": Salf(budget, 0.0, BATCH),
        "SALF": Salf(budget, batch=BATCH),
        "SALF, filled": Salf(budget, batch=BATCH, fill=True),
        **{f"EAGLE-2, {layers} by {top_k}": Eagle2(top_k, layers, budget) for layers, top_k in ENGINES},
        "OPT-Tree": OptTree(budget),
        "best static tree": StaticTree(best_static_tree(drafts, budget), budget),
        f"chain of {budget}": StaticTree(Tree.chain(budget)),
    }
