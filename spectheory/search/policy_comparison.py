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
from spectheory.hardware.latency import Latency
from spectheory.search.draft_models import DraftedPath, DraftModel
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
        cycle_seconds: seconds of one cycle, each draft call timed by its width; None without a latency.
        plain_seconds: seconds per token of plain decoding; None without a latency.
    """

    names: tuple[str, ...]
    budget: Int[np.ndarray, "policies drafts"]
    nodes: Int[np.ndarray, "policies drafts"]
    depth: Int[np.ndarray, "policies drafts"]
    draft_calls: Int[np.ndarray, "policies drafts"]
    draft_tokens: Int[np.ndarray, "policies drafts"]
    expected: Float[np.ndarray, "policies drafts"]
    optimum: Float[np.ndarray, "policies drafts"]
    cycle_seconds: Float[np.ndarray, "policies drafts"] | None = None
    plain_seconds: float | None = None

    @property
    def distance(self) -> Float[np.ndarray, "policies drafts"]:
        """Tokens per cycle that a tree lacks, compared with the best tree of its policy's budget; at least 0."""
        return np.maximum(self.optimum - self.expected, 0.0)

    @property
    def speedup(self) -> Float[np.ndarray, " policies"] | None:
        """Tokens per second of each policy divided by the tokens per second of plain decoding; None without a latency.

        The tokens per second of a policy are its mean tokens per cycle divided by its mean seconds per cycle, as in a
        long run.
        """
        if self.cycle_seconds is None or self.plain_seconds is None:
            return None
        return self.plain_seconds * self.expected.mean(1) / self.cycle_seconds.mean(1)

    @property
    def table(self) -> str:
        """One line for each policy: means over the drafts of E and of what it lacks, of its draft calls and tokens."""
        columns = [self.expected, self.distance, self.draft_calls, self.draft_tokens]
        rows = zip(self.names, *(one.mean(1) for one in columns), strict=True)
        lines = ["{:20} {:7.3f} {:7.3f} {:7.1f} {:8.1f}".format(*row) for row in rows]
        header = f"{'policy':20} {'E':>7} {'short':>7} {'calls':>7} {'tokens':>8}"
        if (speedup := self.speedup) is not None:
            header, lines = f"{header}  speedup", [f"{line} {x:7.2f}x" for line, x in zip(lines, speedup, strict=True)]
        return "\n".join([header, *lines])


def compare_policies(
    drafts: DraftModel | Sequence[DraftModel],
    policies: Mapping[str, Policy],
    *,
    latency: Latency | None = None,
    context: int | None = None,
) -> PolicyComparison:
    """Grow the tree of every policy on every draft, and compare the worth and the cost of the trees.

    The policies may have different budgets: each tree is compared with the best tree of its own policy's budget. A
    draft represents one context, and all drafts have the same weight. To compare two policies, take their difference
    on each draft first, then the mean, as `distance` does.

    Args:
        drafts: a draft model, or a sequence of them, such as a `MarkovDraft` for each last token.
        policies: policies by name: from `standard_policies`, or your own.
        latency: seconds of forwards. A cycle then takes the draft calls, each as wide as the number of nodes that it
            expands, one target forward of the tree with its root, and the overheads, one level overhead for each draft
            call. A policy that drafts nothing takes the time of a plain step.
        context: tokens in the KV cache; the default is the middle context of the latency.

    Raises:
        InputError: there is no draft or no policy, a context is given without a latency, or a draft returns something
            else than rows of falling probabilities.

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
    if latency is None and context is not None:
        raise InputError(f"context={context} needs a latency: give a latency, or leave out the context")
    grown = [[_grow(policy, draft) for draft in asked] for policy in policies.values()]

    @cache
    def best(draft: int, budget: int) -> float:
        return SpecExec(budget, batch=budget).grow(asked[draft]).expected

    def table(of: Callable[[Drafted, list[int]], float]) -> np.ndarray:
        return np.array([[of(drafted, widths) for drafted, widths in row] for row in grown])

    at = None if latency is None else latency.context_of(context)
    return PolicyComparison(
        names=tuple(policies),
        budget=table(lambda drafted, _: drafted.budget),
        nodes=table(lambda drafted, _: drafted.tree.budget),
        depth=table(lambda drafted, _: drafted.tree.max_depth),
        draft_calls=table(lambda _, widths: len(widths)),
        draft_tokens=table(lambda _, widths: sum(widths)),
        expected=table(lambda drafted, _: drafted.expected),
        optimum=np.array([[best(d, drafted.budget) for d, (drafted, _) in enumerate(row)] for row in grown]),
        cycle_seconds=None if latency is None or at is None else table(_clock(latency, at)),
        plain_seconds=None if latency is None or at is None else latency.plain(at),
    )


class _Observed:
    """A draft that records the width of each call."""

    def __init__(self, draft: DraftModel) -> None:
        self._draft, self.widths = draft, []

    def expand(self, paths: Sequence[DraftedPath]) -> tuple[np.ndarray, np.ndarray]:
        self.widths.append(len(paths))
        return self._draft.expand(paths)


def _grow(policy: Policy, draft: DraftModel) -> tuple[Drafted, list[int]]:
    """The tree of the policy, and the widths of its draft calls."""
    observed = _Observed(draft)
    return policy.grow(observed), observed.widths


def _clock(latency: Latency, context: int) -> Callable[[Drafted, list[int]], float]:
    """A function that computes the seconds of a cycle from its tree and the widths of its draft calls."""
    draft = cache(lambda tokens: latency.draft(tokens, context))
    target = cache(lambda tokens: latency.target(tokens, context))

    def cycle(drafted: Drafted, widths: list[int]) -> float:
        if not widths:
            return latency.plain(context)
        tree = drafted.tree
        drafting = draft(max(tree.max_depth, 1)) if latency.drafts_at_once else sum(map(draft, widths))
        overhead = float(latency.overheads(len(widths), 0 if tree.is_chain else tree.budget))
        return drafting + target(tree.budget + 1) + overhead + float(latency.prompts(drafted.expected))

    return cycle


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
