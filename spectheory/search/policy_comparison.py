"""Comparison of policies on the same drafts: the worth of each tree, its distance to the optimum, and its cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.checks import check_array, check_seconds, check_whole
from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.hardware.latency import Latency
from spectheory.search.draft_models import DraftedPath, DraftModel
from spectheory.search.drafted_tree import Drafted
from spectheory.search.spec_exec import SpecExec
from spectheory.search.static_trees import listed

COUNTS = ("budget", "nodes", "depth", "draft_calls", "draft_tokens")
SLACK = 1e-9
"""Tokens by which rounding may raise the worth of a tree above the optimum."""


class Policy(Protocol):
    """A policy: it grows a tree by calling a draft model."""

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        ...


class Means(NamedTuple):
    """Means over the drafts, and their standard errors, for each policy.

    Attributes:
        value: the means.
        standard_error: of the means, for independent drafts; NaN if there is only one draft.
    """

    value: Float[np.ndarray, " policies"]
    standard_error: Float[np.ndarray, " policies"]


@dataclass(frozen=True, eq=False, repr=False)
class PolicyComparison(Record):
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
        context: tokens in the KV cache for which the seconds hold; None without a latency.
    """

    kind: ClassVar[str] = "policy_comparison"

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
    context: int | None = None
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        shape = (len(self.names), np.size(self.expected) // max(1, len(self.names)))
        if not all(isinstance(name, str) for name in self.names) or len(set(self.names)) < len(self.names):
            raise InputError(f"names must be different texts, one for each policy, got {self.names!s:.80}")
        for name in ("expected", "optimum", *COUNTS, "cycle_seconds"):
            values = getattr(self, name)
            if values is None:
                continue
            values = check_array(name, values)
            if values.shape != shape or not values.size:
                raise InputError(f"{name} must have shape (policies, drafts), {shape}, got {values.shape}")
            if values.dtype.kind not in ("iu" if name in COUNTS else "iuf"):
                wanted = "counts >= 0" if name in COUNTS else "numbers"
                raise InputError(f"{name} must be {wanted}, got {values.tolist()!s:.60}")
            object.__setattr__(self, name, values)
        if not (self.cycle_seconds is None) == (self.plain_seconds is None) == (self.context is None):
            raise InputError("cycle_seconds, plain_seconds and context must be given together")
        if self.context is not None:
            check_whole("context", self.context, 0)
            for name in ("cycle_seconds", "plain_seconds"):
                check_seconds(name, getattr(self, name))
        for name in COUNTS:
            if (getattr(self, name) < 0).any():
                raise InputError(f"{name} must be counts >= 0, got {getattr(self, name).tolist()!s:.60}")
        for name in ("expected", "optimum"):
            values = getattr(self, name)
            if not (np.isfinite(values) & (values >= 1 - SLACK)).all():
                raise InputError(f"{name} must be finite and at least 1, got {np.min(values)}")
        for name, most in (("expected", "optimum"), ("nodes", "budget"), ("depth", "nodes")):
            if (getattr(self, name) > getattr(self, most) + SLACK).any():
                raise InputError(f"{name} must be at most {most}: compare the policies again")
        for name, most in (("expected", "depth"), ("optimum", "budget")):
            if (getattr(self, name) > getattr(self, most) + 1 + SLACK).any():
                raise InputError(f"{name} must be at most {most} + 1: compare the policies again")

    @property
    def summary(self) -> str:
        """One line: the number of drafts, and the mean expected tokens per target call of each policy."""
        worth = ", ".join(f"{name} {mean:.3f}" for name, mean in zip(self.names, self.expected.mean(1), strict=True))
        return f"{self.expected.shape[1]} drafts; expected tokens: {worth}"

    @property
    def distance(self) -> Float[np.ndarray, "policies drafts"]:
        """Tokens per cycle that a tree lacks, compared with the best tree of its policy's budget; at least 0."""
        return np.maximum(self.optimum - self.expected, 0.0)

    @property
    def speedup(self) -> Means | None:
        """Tokens per second of each policy divided by the tokens per second of plain decoding.

        The tokens per second of a policy are its mean tokens per cycle divided by its mean seconds per cycle, as in a
        long run. The standard error is the first-order error of this ratio of means. None without a latency.
        """
        if self.cycle_seconds is None or self.plain_seconds is None:
            return None
        seconds = self.cycle_seconds.mean(1, keepdims=True)
        rate = self.expected.mean(1, keepdims=True) / seconds
        error = means((self.expected - rate * self.cycle_seconds) / seconds).standard_error
        return Means(self.plain_seconds * rate[:, 0], self.plain_seconds * error)


def means(values: Float[np.ndarray, "policies drafts"]) -> Means:
    """The mean of each row of values, and its standard error."""
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
        progress: callback; before each policy it gets the number of policies that are done and the number of all.

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

    seconds: dict[str, Any] = {}
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
        provenance=Provenance.now("spectheory.search.compare_policies"),
        **seconds,
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
