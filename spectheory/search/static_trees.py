"""Static trees beside the policies: one shape for every context, and the best shape for given contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.search.draft_models import DraftedPath, DraftModel, ask
from spectheory.search.drafted_tree import Drafted
from spectheory.search.eagle2 import Eagle2
from spectheory.search.frontier import ROOT, Frontier
from spectheory.search.spec_exec import SpecExec

_Answers = dict[DraftedPath, tuple[DraftedPath, np.ndarray, np.ndarray]]
"""By path of ranks: its tokens, those of its children, and the probabilities of these from the root on."""


@dataclass(frozen=True)
class StaticTree:
    """The same tree in every context: its node of rank r holds the draft's r-th most probable token there.

    It is drafted level by level, and a level expands its inner nodes only, so that the draft calls are those of
    `Latency.cycle`. Tokens that the draft gives probability 0, or does not name, are left out with what is below them.

    Attributes:
        tree: the shape; a chain, for one.
        budget: most drafted nodes that were allowed, at least those of the tree; None for just those, 1 for the root.
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
        tree, level = [ROOT], [(ROOT, 0)]  # each node with the one of the tree for which it stands
        while inner := {node.path: (node, below[place]) for node, place in level if below[place]}:
            widest = max(len(places) for _, places in inner.values())
            found = frontier.expand([node for node, _ in inner.values()], fanout=widest, most=widest * len(inner))
            wanted = ((child, inner[child.path[:-1]][1]) for child in found)
            level = [(child, places[child.rank]) for child, places in wanted if child.rank < len(places)]
            tree = sorted(tree + [child for child, _ in level])
        return frontier.drafted(tree)


def best_static_tree(drafts: DraftModel | Sequence[DraftModel], budget: int, *, max_depth: int | None = None) -> Tree:
    """The shape of at most `budget` drafted nodes with the highest mean `Drafted.expected` over the drafts.

    What a dynamic policy gains over it on the same drafts, it gains by adapting to the context. On one
    `RatesDraft(acceptance)` whose rates fall with rank it is `best_tree`, and there is nothing to adapt to.

    Args:
        drafts: a drafter, or a sequence of them, weighted equally, each standing for one context.
        budget: most drafted nodes, at least 1.
        max_depth: greatest depth of a node, None for any.

    Raises:
        InputError: there is no draft, a limit is out of range, or a draft answers nonsense.

    Source: Sequoia (arXiv 2402.12374), without its assumption that a rate depends on the rank alone.
    """
    every = SpecExec(budget, batch=budget) if max_depth is None else Eagle2(budget, max_depth, budget)
    return every.grow(MeanDraft(drafts, budget)).tree


def listed(drafts: DraftModel | Sequence[DraftModel]) -> list[DraftModel]:
    """One draft or several, checked.

    Raises:
        InputError: there is none, or what is there cannot be asked.
    """
    found: list[DraftModel] = list(drafts) if isinstance(drafts, Sequence) else [drafts]
    if not found:
        raise InputError("drafts must be a drafter or a sequence of at least one, got none")
    for one in found:
        if not callable(getattr(one, "expand", None)):
            raise InputError(f"drafts must answer expand(paths), see DraftModel, got {one!r:.80}: use a RatesDraft")
    return found


class MeanDraft:
    """Drafts as one whose tokens are ranks: a path of ranks is as probable as it is on average over the drafts.

    That neither rises with depth nor with rank, and a shape is worth the sum over its paths, so that whatever finds
    the optimum on this draft has found the best static tree.

    Args:
        drafts: a drafter, or a sequence of them.
        fanout: children of a node that are looked at.
    """

    def __init__(self, drafts: DraftModel | Sequence[DraftModel], fanout: int) -> None:
        self._drafts: list[tuple[DraftModel, _Answers]] = [(draft, {}) for draft in listed(drafts)]
        self._fanout = fanout

    def expand(self, paths: Sequence[DraftedPath]) -> tuple[np.ndarray, np.ndarray]:
        """See DraftModel.expand; C = fanout. The parents of `paths` have been asked for before."""
        above, below = np.zeros((len(paths), 1)), np.zeros((len(paths), self._fanout))
        for draft, answers in self._drafts:
            nodes = [_behind(answers, path) for path in paths]
            alive = [i for i, (_, probability) in enumerate(nodes) if probability > 0]
            if not alive:
                continue
            tokens, distribution = ask(draft, [nodes[i][0] for i in alive], self._fanout)
            for i, row, conditional in zip(alive, tokens, distribution, strict=True):
                behind, probability = nodes[i]
                answers[paths[i]] = behind, row, probability * conditional
                above[i] += probability
                below[i, : len(row)] += probability * conditional
        return np.tile(np.arange(self._fanout), (len(paths), 1)), below / above


def _behind(answers: _Answers, path: DraftedPath) -> tuple[DraftedPath, float]:
    """The tokens on a path of ranks, and its probability: 0 where the draft has no such path."""
    if not path:
        return (), 1.0
    rank = path[-1]
    if path[:-1] not in answers or rank >= len(answers[path[:-1]][1]):
        return (), 0.0
    tokens, row, probability = answers[path[:-1]]
    return (*tokens, int(row[rank])), float(probability[rank])
