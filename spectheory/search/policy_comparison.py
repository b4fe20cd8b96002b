"""Policies side by side on the same drafts: what each tree is worth, how far from the optimum, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.hardware.latency import Latency
from spectheory.search.draft_models import DraftedPath, DraftModel
from spectheory.search.drafted_tree import Drafted
from spectheory.search.spec_exec import SpecExec
from spectheory.search.static_trees import listed

SLACK = 1e-9
"""Tokens by which rounding may raise what a tree is worth."""


class Policy(Protocol):
    """What grows a tree on a draft."""

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        ...


class Means(NamedTuple):
    """Over the drafts, each (policies,); the standard errors take the drafts as independent, NaN where there is one."""

    value: np.ndarray
    standard_error: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class PolicyComparison(Record):
    """What P policies do on the same D drafts. Arrays have a row a policy and a column a draft.

    Attributes:
        names: of the policies.
        budget: (P, D) most drafted nodes that the policy was allowed.
        nodes, depth: (P, D) of the trees, the root not counted.
        draft_calls, draft_tokens: (P, D) forwards of the draft, and the nodes that they expanded in all.
        expected: (P, D) E, tokens per target call where the target accepts at the draft's rates.
        optimum: (P, D) the highest E of any tree within that policy's own budget.
        cycle_seconds: (P, D) of one cycle, every draft call timed with its width; None without a latency.
        plain_seconds: per token of plain decoding, or None.
        context: tokens in the KV cache that the seconds are for, or None.
    """

    kind: ClassVar[str] = "policy_comparison"

    names: tuple[str, ...]
    budget: np.ndarray
    nodes: np.ndarray
    depth: np.ndarray
    draft_calls: np.ndarray
    draft_tokens: np.ndarray
    expected: np.ndarray
    optimum: np.ndarray
    cycle_seconds: np.ndarray | None = None
    plain_seconds: float | None = None
    context: int | None = None
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        shape = (len(self.names), np.size(self.expected) // max(1, len(self.names)))
        for name in ("expected", "optimum", "budget", "nodes", "depth", "draft_calls", "draft_tokens", "cycle_seconds"):
            values = getattr(self, name)
            if values is not None and np.shape(values) != shape:
                raise InputError(f"{name} must have shape (policies, drafts), {shape}, got {np.shape(values)}")
        if (self.cycle_seconds is None) != (self.plain_seconds is None):
            raise InputError("cycle_seconds and plain_seconds must be given together")
        for name in ("budget", "nodes", "depth", "draft_calls", "draft_tokens"):
            counts = np.asarray(getattr(self, name))
            if counts.dtype.kind not in "iu" or (counts < 0).any():
                raise InputError(f"{name} must be counts >= 0, got {counts.tolist()!s:.60}")
        for name in ("expected", "optimum", "cycle_seconds", "plain_seconds"):
            values = getattr(self, name)
            least = 0 if "seconds" in name else 1 - SLACK
            if values is not None and not (np.isfinite(values) & (np.asarray(values) >= least)).all():
                raise InputError(f"{name} must be finite and at least {round(least)}, got {np.min(values)}")
        if (np.asarray(self.expected) > np.asarray(self.optimum) + SLACK).any():
            raise InputError("expected must be at most optimum, the most that a tree of its budget can give")

    @property
    def summary(self) -> str:
        """The policies, and the mean tokens that each tree is worth."""
        worth = ", ".join(f"{name} {mean:.3f}" for name, mean in zip(self.names, self.expected.mean(1), strict=True))
        return f"{self.expected.shape[1]} drafts; expected tokens: {worth}"

    @property
    def distance(self) -> np.ndarray:
        """(P, D) tokens per cycle by which a tree misses the best one of its policy's budget; at least 0."""
        return np.maximum(self.optimum - self.expected, 0.0)

    @property
    def speedup(self) -> Means | None:
        """(P,) plain seconds per token over those of the policy: mean tokens over mean seconds, as in a long run.

        The standard error is that of a ratio of means, to first order. None without a latency.
        """
        if self.cycle_seconds is None or self.plain_seconds is None:
            return None
        seconds = self.cycle_seconds.mean(1, keepdims=True)
        rate = self.expected.mean(1, keepdims=True) / seconds
        error = means((self.expected - rate * self.cycle_seconds) / seconds).standard_error
        return Means(self.plain_seconds * rate[:, 0], self.plain_seconds * error)


def means(values: np.ndarray) -> Means:
    """The mean of each row of (P, D) values and its standard error."""
    drafts = values.shape[1]
    error = values.std(1, ddof=1) / drafts**0.5 if drafts > 1 else np.full(len(values), np.nan)
    return Means(values.mean(1), error)


def compare_policies(
    drafts: DraftModel | Sequence[DraftModel],
    policies: Mapping[str, Policy],
    *,
    latency: Latency | None = None,
    context: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PolicyComparison:
    """Grow every policy's tree on every draft and lay side by side what they are worth and what they cost.

    Budgets may differ: a tree is measured by the best one of the budget that its own policy was allowed. A draft stands
    for one context, and all count alike; differences between policies are best taken draft by draft, as `distance` is.

    Args:
        drafts: a drafter, or a sequence of them, such as a `MarkovDraft` from each last token.
        policies: what grows a tree, by name: `standard_policies`, or of your own.
        latency: seconds of forwards. A cycle is then the draft calls, each as wide as the paths that it expands, one
            target forward of the tree and its root, and the overheads, with a level's for each draft call; a policy
            that drafts nothing takes a plain step.
        context: tokens in the KV cache, default the middle one of the latency.
        progress: told how many policies are done, and of how many.

    Raises:
        InputError: no draft, no policy, a context without a latency, or a draft that answers nonsense.

    >>> from spectheory import Acceptance, OptTree, RatesDraft
    >>> draft = RatesDraft(Acceptance.by_rank([0.5, 0.25]))
    >>> found = compare_policies(draft, {"early": OptTree(4, threshold=0.8), "to the end": OptTree(4)})
    >>> found.distance.tolist(), found.draft_calls.tolist()
    ([[0.375], [0.0]], [[1], [3]])
    """
    asked = listed(drafts)
    if not isinstance(policies, Mapping) or not policies:
        raise InputError(f'policies must be named, {{"OPT-Tree": OptTree(16)}} for one, got {policies!r:.80}')
    if latency is None and context is not None:
        raise InputError(f"context={context} is for a latency: give one, or no context")
    grown = []
    for policy in policies.values():
        if progress is not None:
            progress(len(grown), len(policies))
        grown.append([_grow(policy, draft) for draft in asked])

    @cache
    def best(draft: int, budget: int) -> float:
        return SpecExec(budget, batch=budget).grow(asked[draft]).expected

    def table(of: Callable[[Drafted, list[int]], float]) -> np.ndarray:
        return np.array([[of(drafted, widths) for drafted, widths in row] for row in grown])

    seconds = {}
    if latency is not None:
        context = latency.context_of(context)
        seconds = {
            "cycle_seconds": table(_clock(latency, context)),
            "plain_seconds": latency.plain(context),
            "context": context,
        }
    return PolicyComparison(
        names=tuple(policies),
        budget=table(lambda drafted, _: drafted.budget),
        nodes=table(lambda drafted, _: drafted.tree.budget),
        depth=table(lambda drafted, _: drafted.tree.max_depth),
        draft_calls=table(lambda _, widths: len(widths)),
        draft_tokens=table(lambda _, widths: sum(widths)),
        expected=table(lambda drafted, _: drafted.expected),
        optimum=np.array([[best(d, drafted.budget) for d, (drafted, _) in enumerate(row)] for row in grown]),
        provenance=Provenance.now("spectheory.compare_policies"),
        **seconds,
    )


class _Observed:
    """A draft that notes the width of each call."""

    def __init__(self, draft: DraftModel) -> None:
        self._draft, self.widths = draft, []

    def expand(self, paths: Sequence[DraftedPath]) -> tuple[np.ndarray, np.ndarray]:
        """See DraftModel.expand."""
        self.widths.append(len(paths))
        return self._draft.expand(paths)


def _grow(policy: Policy, draft: DraftModel) -> tuple[Drafted, list[int]]:
    """What the policy drafts, and the widths of its draft calls."""
    observed = _Observed(draft)
    return policy.grow(observed), observed.widths


def _clock(latency: Latency, context: int) -> Callable[[Drafted, list[int]], float]:
    """What says the seconds of a cycle, given its tree and the widths of its draft calls."""
    draft = cache(lambda tokens: latency.draft(tokens, context))
    target = cache(lambda tokens: latency.target(tokens, context))

    def cycle(drafted: Drafted, widths: list[int]) -> float:
        if not widths:
            return latency.plain(context)
        overhead = latency.overhead_seconds + len(widths) * latency.level_overhead_seconds
        return sum(map(draft, widths)) + target(drafted.tree.budget + 1) + overhead

    return cycle
