"""Static trees: one shape for every context (`StaticTree`), and the best shape for given drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.search.draft_models import Drafted, DraftedPath, DraftModel, ask
from spectheory.search.eagle2 import Eagle2
from spectheory.search.frontier import ROOT, Frontier
from spectheory.search.spec_exec import SpecExec

_Answers = dict[DraftedPath, tuple[DraftedPath, np.ndarray, np.ndarray]]
"""For each path of ranks: its tokens, the tokens of its children, and the path probabilities of its children."""


@dataclass(frozen=True)
class StaticTree:
    """A policy that grows the same tree in every context.

    A node of rank r gets the draft's r-th token (counted from 0) after the path to its parent.

    The tree is drafted level by level. Only nodes with children are expanded, so the draft calls are the ones that
    `Latency.cycle` counts. A node is left out, with everything below it, if the draft gives its token probability 0 or
    returns too few tokens.

    Attributes:
        tree: the shape, such as `Tree.chain(4)`.
        budget: maximum number of drafted nodes that the policy was allowed. None means the number of drafted nodes of
            the tree, or 1 if there are none.
    """

    tree: Tree
    budget: int | None = None

    def __post_init__(self) -> None:
        if self.budget is not None:
            least, repair = max(1, self.tree.budget), f": the tree has {self.tree.budget} drafted nodes"
            check_whole("budget", self.budget, least, repair)

    def grow(self, draft: DraftModel) -> Drafted:
        """Draft one tree."""
        frontier, below = Frontier(draft, self.budget or max(1, self.tree.budget)), self.tree.child_lists
        tree, level = [ROOT], [(ROOT, 0)]  # in `level`, each drafted node is paired with its node of the shape
        while inner := {node.path: (node, below[place]) for node, place in level if below[place]}:
            widest = max(len(places) for _, places in inner.values())
            found = frontier.expand([node for node, _ in inner.values()], fanout=widest, most=widest * len(inner))
            wanted = ((child, inner[child.path[:-1]][1]) for child in found)
            level = [(child, places[child.rank]) for child, places in wanted if child.rank < len(places)]
            tree = sorted(tree + [child for child, _ in level])
        return frontier.drafted(tree)


def best_static_tree(drafts: DraftModel | Sequence[DraftModel], budget: int, *, max_depth: int | None = None) -> Tree:
    """The shape of at most `budget` drafted nodes with the highest mean `Drafted.expected` over the drafts.

    The advantage of a dynamic policy over this tree, on the same drafts, is what it gains by adapting to the context.
    For a single `RatesDraft(acceptance)` with rates that are non-increasing in rank, the result is worth as much as
    `best_tree(acceptance, budget)`.

    Args:
        drafts: a draft model, or a sequence of them. Each represents one context; all have the same weight.
        budget: maximum number of drafted nodes, at least 1.
        max_depth: the greatest depth of a node; None sets no limit.

    Raises:
        InputError: there is no draft, a limit is out of range, or a draft returns something else than rows of falling
            probabilities.

    Source: Sequoia (arXiv 2402.12374), without its assumption that a rate depends on the rank alone.
    """
    every = SpecExec(budget, batch=budget) if max_depth is None else Eagle2(budget, max_depth, budget)
    return every.grow(MeanDraft(drafts, budget)).tree


def listed(drafts: DraftModel | Sequence[DraftModel]) -> list[DraftModel]:
    """The drafts as a list, checked.

    Raises:
        InputError: there is no draft, or an entry has no method `expand`.
    """
    found: list[DraftModel] = list(drafts) if isinstance(drafts, Sequence) else [drafts]
    if not found:
        raise InputError("drafts must be a draft model or a sequence of draft models, got an empty sequence")
    for one in found:
        if not callable(getattr(one, "expand", None)):
            raise InputError(
                f"drafts must be draft models, with a method expand(paths) as in DraftModel, got {one!r:.80}: for an "
                "Acceptance, use RatesDraft(acceptance)"
            )
    return found


class MeanDraft:
    """The mean of several drafts, as one draft whose tokens are ranks.

    The probability of a path of ranks is its mean probability over the drafts. These probabilities do not rise along a
    path or with rank, and a shape is worth the sum of the probabilities of its paths. So the optimum on this draft is
    the best static tree.

    Args:
        drafts: a draft model, or a sequence of them.
        fanout: maximum number of children of a node that are considered.
    """

    def __init__(self, drafts: DraftModel | Sequence[DraftModel], fanout: int) -> None:
        self._drafts: list[tuple[DraftModel, _Answers]] = [(draft, {}) for draft in listed(drafts)]
        self._fanout = fanout

    def expand(self, paths: Sequence[DraftedPath]) -> tuple[np.ndarray, np.ndarray]:
        """See `DraftModel.expand`; C = fanout. The parents of `paths` must have been expanded before."""
        above, below = np.zeros((len(paths), 1)), np.zeros((len(paths), self._fanout))
        for draft, answers in self._drafts:
            nodes = [_tokens_of(answers, path) for path in paths]
            alive = [i for i, (_, probability) in enumerate(nodes) if probability > 0]
            if not alive:
                continue
            tokens, distribution = ask(draft, [nodes[i][0] for i in alive], self._fanout)
            for i, row, conditional in zip(alive, tokens, distribution, strict=True):
                drafted, probability = nodes[i]
                answers[paths[i]] = drafted, row, probability * conditional
                above[i] += probability
                below[i, : len(row)] += probability * conditional
        return np.tile(np.arange(self._fanout), (len(paths), 1)), below / above


def _tokens_of(answers: _Answers, path: DraftedPath) -> tuple[DraftedPath, float]:
    """The tokens on a path of ranks, and the probability of the path: 0 if the draft has no such path."""
    if not path:
        return (), 1.0
    rank = path[-1]
    if path[:-1] not in answers or rank >= len(answers[path[:-1]][1]):
        return (), 0.0
    tokens, row, probability = answers[path[:-1]]
    return (*tokens, int(row[rank])), float(probability[rank])
