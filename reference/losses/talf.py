"""TALF, the tree-aware loss: cross-entropy at every node of a tree that the target built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reference.losses.beam_trees import BeamTrees
from reference.losses.kl import cross_entropy
from reference.losses.needs import Loss, Needs
from reference.losses.tensor_checks import (
    check_distributions,
    check_logits,
    check_mask,
    check_precision,
    check_shape,
    chosen,
)
from spectheory.core.checks import check_whole

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

    Raises:
        InputError: shapes do not match, or the step returns features of another shape or precision.
    """
    check_shape("tokens", tokens, trees.token.shape[:1], "one token for each root of the trees")
    check_shape("features", features, (len(tokens), features.shape[-1]), "one row for each root of the trees")
    fed, token = features[:, None], tokens[:, None]
    above = torch.full_like(token, -1)
    logits: list[Tensor] = []
    for depth, width in enumerate(trees.widths):
        if depth:
            nodes = trees.level(depth)
            token, above = trees.token[:, nodes], trees.parent[:, nodes] - trees.level(depth - 1).start
            fed = fed.gather(1, above[..., None].expand(-1, -1, fed.shape[-1]))
        shape = (len(tokens), width, features.shape[-1])
        fed, found = step(fed, token, above)
        check_shape("the features that step returns", fed, shape, "as it is fed")
        check_precision("the features that step returns", fed, "the features it is fed", features.dtype)
        check_shape("the logits that step returns", found, (*shape[:2], found.shape[-1]), "one row per node")
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

    @property
    def needs(self) -> Needs:
        return Needs(passes=self.depth, beam_width=self.k)

    def __call__(self, logits: Float[Tensor, "R N V"], trees: BeamTrees, mask: Bool[Tensor, " R"]) -> Float[Tensor, ""]:
        """The loss of R trees, a scalar.

        Args:
            logits: what `unroll_tree` returned.
            trees: what `beam_trees` returned.
            mask: the roots from which the draft learns.

        Raises:
            InputError: shapes or precisions do not match, probabilities do not sum to 1, or the mask keeps no root.
        """
        check_logits(logits, 3)
        check_shape("logits", logits, trees.target.shape, "the shape of the targets of the trees")
        check_precision("the targets of the trees", trees.target, "the logits", logits.dtype)
        check_mask("mask", mask, logits.shape[:1], "one entry for each root")
        check_distributions("the targets of the trees", trees.target, trees.present & mask[:, None])
        return self._call(logits, trees, mask)

    def _call(self, logits: Tensor, trees: BeamTrees, mask: Tensor) -> Tensor:
        kept = trees.present & mask[:, None]
        return cross_entropy(chosen(logits, kept), chosen(trees.target, kept)).sum() / mask.sum()
