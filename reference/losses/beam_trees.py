"""Trees that the target builds by beam search, with its distribution at each node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int, Int64
from torch import Tensor

from reference.losses.tensor_checks import check_distributions, check_logits, check_shape
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

    Args:
        expand: the target's forward.
        roots: R, number of roots.
        k: width of the beam, and number of children of a node.
        depth: number of levels, which is the number of calls of `expand` and of passes of the draft.

    Raises:
        InputError: a count is below 1, or `expand` returns another shape or rows that are not distributions.
    """
    for name, count in (("roots", roots), ("k", k), ("depth", depth)):
        check_whole(name, count, 1)
    return _beam_trees(expand, roots, k, depth)


def _beam_trees(expand: TargetForward, roots: int, k: int, depth: int) -> BeamTrees:
    paths = torch.zeros((roots, 1, 0), dtype=torch.int64)
    parent, token = torch.full((roots, 1), -1), torch.full((roots, 1), -1)
    probability = torch.ones((roots, 1), dtype=torch.float64)
    levels: list[tuple[Tensor, ...]] = []
    first = 0
    while True:
        target = _expanded(expand, paths)
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


def _expanded(expand: TargetForward, paths: Tensor) -> Tensor:
    target = expand(paths)
    check_logits(target, 3, "what expand returns")
    check_shape("what expand returns", target, (*paths.shape[:2], target.shape[-1]), "one row for each path")
    check_distributions("the rows that expand returns", target)
    return target.detach()


def _best_children(probability: Tensor, target: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The place of the parent in its level, the token and the path probability of the k best children, (R, W) each."""
    likely = target.topk(min(k, target.shape[-1]), dim=-1)
    by_rank = (probability[..., None] * likely.values.double()).transpose(1, 2).flatten(1)
    order = by_rank.argsort(dim=1, descending=True, stable=True)[:, :k]
    tokens = likely.indices.transpose(1, 2).flatten(1)
    return order % target.shape[1], tokens.gather(1, order), by_rank.gather(1, order)
