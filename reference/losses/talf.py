"""TALF, the tree-aware loss: cross-entropy at every node of a tree that the target built by beam search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from reference.losses.chain import Loss, check_rows, cross_entropy
from spectheory.core.checks import check_counts

TreeForward = Callable[[Int[Tensor, "R W"], Int[Tensor, "R W"]], Float[Tensor, "R W V"]]
"""A model's forward for one level of trees at R roots: `forward(tokens, parent)` has a row for each of W nodes.

`tokens` are the tokens of the nodes, `parent` the places of their parents in the level before; the first call has the
root of each tree, whose parent is -1. A row is the target's distribution, or the draft's logits, of the token after
the node. The forward keeps what it computed for the levels before, and lets a node read its ancestors and the text of
its root. So it serves one set of trees, and is made anew for each batch."""


@dataclass(frozen=True, eq=False)
class BeamTrees:
    """Trees of one size at R roots, each with N nodes, level by level, the root first.

    Attributes:
        parent: the parent of each node, -1 for the root.
        token: the token of each node; that of the root is the last one of its text.
        target: the target's distribution of the token after each node.
        present: whether the node counts. A node of path probability 0 does not.
        widths: number of nodes of each level.
    """

    parent: Int64[Tensor, "R N"]
    token: Int64[Tensor, "R N"]
    target: Float[Tensor, "R N V"]
    present: Bool[Tensor, "R N"]
    widths: tuple[int, ...]

    def level(self, depth: int) -> slice:
        """The nodes of a level."""
        start = sum(self.widths[:depth])
        return slice(start, start + self.widths[depth])


def beam_trees(expand: TreeForward, roots: Int64[Tensor, " R"], k: int, depth: int) -> BeamTrees:
    """Build a tree at each root by the beam search of EAGLE-2, with the target in place of the draft.

    From each node of the last level, the `k` likeliest tokens are candidates; the next level has the `k` candidates of
    largest path probability. The tree has `depth` levels, the root included, and so at most 1 + (depth - 1) k nodes.
    Each of them was expanded by the target, so its distribution is known without a further forward. Of candidates with
    equal path probabilities, the lower rank comes first, then the earlier parent; ties among the last of the `k`
    likeliest tokens are broken as `torch.topk` does.

    Args:
        expand: the forward of the target, which returns distributions.
        roots: the token of each root.
        k: width of the beam.
        depth: number of levels.

    Raises:
        InputError: a count is below 1.
    """
    check_counts(1, k=k, depth=depth)
    token, probability = roots[:, None], torch.ones((len(roots), 1), dtype=torch.float64, device=roots.device)
    parent, widths, levels = torch.full_like(token, -1), [], []
    while True:
        target = expand(token, parent).detach()
        widths.append(token.shape[1])
        levels.append((parent + sum(widths[:-2]), token, target, probability > 0))
        if len(widths) == depth:
            joined = [torch.cat(parts, 1) for parts in zip(*levels, strict=True)]
            return BeamTrees(*joined, widths=tuple(widths))
        parent, token, probability = _best_children(probability, target, k)


def _best_children(probability: Tensor, target: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The place of the parent in its level, the token and the path probability of the k best children, (R, W) each."""
    likely = target.topk(min(k, target.shape[-1]), dim=-1)
    by_rank = (probability[..., None] * likely.values.double()).transpose(1, 2).flatten(1)
    order = by_rank.argsort(dim=1, descending=True, stable=True)[:, :k]
    tokens = likely.indices.transpose(1, 2).flatten(1)
    return order % target.shape[1], tokens.gather(1, order), by_rank.gather(1, order)


def unroll_tree(forward: TreeForward, trees: BeamTrees) -> Float[Tensor, "R N V"]:
    """The rows of all nodes, level by level."""
    found = []
    for depth in range(len(trees.widths)):
        nodes = trees.level(depth)
        found.append(forward(trees.token[:, nodes], trees.parent[:, nodes] - sum(trees.widths[: max(0, depth - 1)])))
    return torch.cat(found, 1)


@dataclass(frozen=True)
class Talf(Loss):
    """TALF: sum over the nodes n of a tree of the cross-entropy of p_child(n), mean over the roots.

    What the source says (Algorithm 1): each token of a training text is a root. The target builds a tree there by the
    beam search of EAGLE-2, k = 4 and depth 3, once before the training. At each node n the draft, which reads its own
    features along the path, predicts p_child(n), the distribution of the token after n; L_n = -sum_v p_child(n)(v) log
    p_child(n)^(d)(v), and L = sum_n L_n. There is no regression of features.

    What it leaves open: which nodes count. p_child(n) is said to be precomputed during the generation of the tree, so
    the nodes are those that the beam search expanded: the root and, at each further level, the beam of k nodes; depth 3
    is then three passes of the draft, as in HASS, and 1 + 2 k nodes. Whether L is divided by their number: not here.
    How roots are added up: here the mean over the roots, so that the loss does not grow with the length of the text.
    All nodes have the same weight, as printed: the 2 k nodes below the root weigh together 2 k times as much as the
    root, however improbable they are.

    What is done here: nodes to which the target goes with probability 0 are left out. With k = 1 the tree is the
    target's greedy continuation, and on a text that is that continuation the loss is `Eagle3(passes=depth, decay=1)`.
    HASS follows the text instead, which can be a sample; so the printed "TALF with k=1 is almost the same as HASS".

    Attributes:
        k: width of the beam.
        depth: number of levels of the tree, the root included, which is the number of passes of the draft.
        roots: number of roots in each text, drawn anew at each step.

    Source: SALF & TALF, Section 3.2, Algorithm 1.
    """

    name: ClassVar[str] = "talf"
    k: int = 4
    depth: int = 3
    roots: int = 64

    def __post_init__(self) -> None:
        check_counts(1, k=self.k, depth=self.depth, roots=self.roots)

    def __call__(self, logits: Float[Tensor, "R N V"], trees: BeamTrees, mask: Bool[Tensor, " R"]) -> Float[Tensor, ""]:
        """The loss of R trees, a scalar.

        Args:
            logits: what `unroll_tree` returned.
            trees: what `beam_trees` returned.
            mask: the roots from which the draft learns.

        Raises:
            InputError: shapes do not match, rows are no distributions, or the mask keeps no root.
        """
        kept = trees.present & mask[:, None]
        check_rows(logits, trees.target, kept)
        return cross_entropy(logits[kept], trees.target[kept]).sum() / mask.sum()
