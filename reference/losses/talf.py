"""TALF, the tree-aware loss: cross-entropy at every node of a tree that the target built by beam search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Float64, Int, Int64
from torch import Tensor

from reference.losses.chain import Loss, cross_entropy
from reference.losses.checks import check_distributions, check_like, check_logits, check_mask, check_shape, chosen
from spectheory.core.checks import check_whole

TargetForward = Callable[[Int[Tensor, "R W d"]], Float[Tensor, "R W V"]]
"""The target: `expand(paths)` returns the distribution of the token after each path.

R counts roots, W paths at each root, and a path is the d tokens after the root; the first call has the empty path,
d = 0, of each root. The shape of a draft's `expand` in `spectheory.search`, for many roots at once."""


@dataclass(frozen=True, eq=False)
class BeamTrees:
    """Trees of one size at R roots, each with N nodes, level by level, the root first.

    Attributes:
        parent: the parent of each node, -1 for the root.
        token: the token of each node, -1 for the root, whose token is the last one of its text.
        probability: the product of the target's probabilities on the path.
        target: the target's distribution of the token after each node.
        present: whether the node counts. A node of probability 0 does not.
        widths: number of nodes of each level.
    """

    parent: Int64[Tensor, "R N"]
    token: Int64[Tensor, "R N"]
    probability: Float64[Tensor, "R N"]
    target: Float[Tensor, "R N V"]
    present: Bool[Tensor, "R N"]
    widths: tuple[int, ...]

    def level(self, depth: int) -> slice:
        """The nodes of a level."""
        start = sum(self.widths[:depth])
        return slice(start, start + self.widths[depth])


def beam_trees(expand: TargetForward, roots: int, k: int, depth: int) -> BeamTrees:
    """Build a tree at each of `roots` roots by the beam search of EAGLE-2, with the target in place of the draft.

    From each node of the last level, the `k` likeliest tokens are candidates; the next level has the `k` candidates of
    largest path probability. The tree has `depth` levels, the root included, and so at most 1 + (depth - 1) k nodes.
    Each of them was expanded by the target, so its distribution is known without a further forward. Of candidates with
    equal path probabilities, the lower rank comes first, then the earlier parent; ties among the last of the `k`
    likeliest tokens are broken as `torch.topk` does.

    Raises:
        InputError: a count is below 1, or `expand` returns another shape or rows that are not distributions.
    """
    for name, count in (("roots", roots), ("k", k), ("depth", depth)):
        check_whole(name, count, 1)
    paths = torch.zeros((roots, 1, 0), dtype=torch.int64)
    parent, token = torch.full((roots, 1), -1), torch.full((roots, 1), -1)
    probability = torch.ones((roots, 1), dtype=torch.float64)
    levels: list[tuple[Tensor, ...]] = []
    first = 0
    while True:
        target = expand(paths).detach()
        check_logits(target, "what expand returns")
        check_shape("what expand returns", target, (*paths.shape[:2], target.shape[-1]), "one row for each path")
        check_distributions("the rows that expand returns", target, torch.ones(paths.shape[:2]).to(target) > 0)
        levels.append((parent, token, probability, target))
        if len(levels) == depth:
            break
        above, token, probability = _best_children(probability.to(target.device), target, k)
        parent, first = above + first, first + paths.shape[1]
        reached = paths.to(above.device).gather(1, above[..., None].expand(-1, -1, paths.shape[2]))
        paths = torch.cat([reached, token[..., None]], -1)
    device = levels[0][3].device
    joined = [torch.cat([part.to(device) for part in parts], 1) for parts in zip(*levels, strict=True)]
    widths = tuple(level[0].shape[1] for level in levels)
    return BeamTrees(*joined, present=joined[2] > 0, widths=widths)


def _best_children(probability: Tensor, target: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The place of the parent in its level, the token and the path probability of the k best children, (R, W) each."""
    likely = target.topk(min(k, target.shape[-1]), dim=-1)
    by_rank = (probability[..., None] * likely.values.double()).transpose(1, 2).flatten(1)
    order = by_rank.argsort(dim=1, descending=True, stable=True)[:, :k]
    tokens = likely.indices.transpose(1, 2).flatten(1)
    return order % target.shape[1], tokens.gather(1, order), by_rank.gather(1, order)


TreeStep = Callable[
    [Float[Tensor, "R W D"], Int[Tensor, "R W"], Int[Tensor, "R W"]],
    tuple[Float[Tensor, "R W D"], Float[Tensor, "R W V"]],
]
"""A forward of a draft for one level of trees: `step(features, tokens, parent)` returns the features and the logits of
the W nodes of the level at each of R roots.

`features` are those the draft computed at the parents, for the roots those of the target. `parent` is the place of the
parent in the level before, -1 for the roots. The step keeps the keys and values of the levels before, and lets a node
attend to its ancestors and to the text of its root."""


def unroll_tree(
    step: TreeStep, features: Float[Tensor, "R D"], tokens: Int[Tensor, " R"], trees: BeamTrees
) -> Float[Tensor, "R N V"]:
    """The logits of all nodes: `step` is called level by level with the features that it returned for the parents.

    Args:
        step: a forward of any draft; a new one for each batch, because it keeps keys and values.
        features: the target's feature before the root.
        tokens: the token of each root.
        trees: what `beam_trees` returned.
    """
    check_shape("tokens", tokens, trees.token.shape[:1], "one token for each root of the trees")
    fed, token = features[:, None], tokens[:, None]
    above = torch.full_like(token, -1)
    logits: list[Tensor] = []
    for depth in range(len(trees.widths)):
        if depth:
            nodes = trees.level(depth)
            token, above = trees.token[:, nodes], trees.parent[:, nodes] - trees.level(depth - 1).start
            fed = fed.gather(1, above[..., None].expand(-1, -1, fed.shape[-1]))
        fed, found = step(fed, token, above)
        logits.append(found)
    return torch.cat(logits, 1)


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

    Source: SALF & TALF, Section 3.2, Algorithm 1.
    """

    name: ClassVar[str] = "talf"
    k: int = 4
    depth: int = 3

    def __post_init__(self) -> None:
        check_whole("k", self.k, 1)
        check_whole("depth", self.depth, 1)

    def __call__(self, logits: Float[Tensor, "R N V"], trees: BeamTrees, mask: Bool[Tensor, " R"]) -> Float[Tensor, ""]:
        """The loss of R trees, a scalar.

        Args:
            logits: what `unroll_tree` returned.
            trees: what `beam_trees` returned.
            mask: the roots from which the draft learns.

        Raises:
            InputError: shapes or precisions do not match, probabilities do not sum to 1, or the mask keeps no root.
        """
        check_logits(logits)
        check_like("the targets of the trees", trees.target, logits, "the logits")
        check_mask("mask", mask, logits.shape[:1], "one entry for each root")
        kept = trees.present & mask[:, None]
        check_distributions("the targets of the trees", trees.target, kept)
        return cross_entropy(chosen(logits, kept), chosen(trees.target, kept)).sum() / mask.sum()
