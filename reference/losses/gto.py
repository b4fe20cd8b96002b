"""GTO, group tree optimisation: draft trees that accept more than the frozen start's trees are made more probable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from reference.losses.chain import Eagle3, Loss, check_shape
from reference.losses.talf import BeamTrees
from spectheory.core.checks import check_counts, check_number, check_whole

SMALLEST = 1e-12
"""The smallest eta and epsilon."""


def accepted_tokens(trees: BeamTrees, text: Int64[Tensor, "R T"]) -> Bool[Tensor, "R T"]:
    """Which of the T tokens that follow each root of trees with T + 1 levels are accepted: they are a path of the tree.

    So the accepted tokens are the longest accepted sequence if the target emits this text.
    """
    node, alive = torch.zeros_like(text[:, :1]), torch.ones_like(text[:, :1], dtype=torch.bool)
    found = []
    for depth in range(1, len(trees.widths)):
        level = trees.level(depth)
        same = alive & (trees.parent[:, level] == node) & (trees.token[:, level] == text[:, depth - 1 : depth])
        node, alive = level.start + same.int().argmax(1, keepdim=True), same.any(1, keepdim=True)
        found.append(alive)
    return torch.cat(found, 1)


def advantages(
    rewards: Float[Tensor, "G m"], reference_rewards: Float[Tensor, "G m"], epsilon: float
) -> Float[Tensor, "G m"]:
    """The advantages of Eq. (9) and (10): R = r - r_ref, A = (R - mean R) / (std R + epsilon) in each group.

    The standard deviation is that of the group itself (divided by m, not by m - 1). Equal R give exactly 0.
    """
    debiased = rewards - reference_rewards
    centred = debiased - debiased[:, :1]
    centred = centred - centred.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True).sqrt() + epsilon)


def likelihood_ratio(
    now: Float[Tensor, "G m T"], base: Float[Tensor, "G m T"], accepted: Bool[Tensor, "G m T"]
) -> Float[Tensor, "G m"]:
    """The ratio of Eq. (11): exp of the mean over the accepted tokens of log pi(y) - log pi_base(y).

    Args:
        now: the draft's log-probability of each accepted token.
        base: the log-probabilities by the draft of the comparison; no gradient flows through them.
        accepted: which of the T places hold an accepted token. With none, the ratio is 1.
    """
    difference = torch.where(accepted, now - base.detach(), 0)
    return torch.exp(difference.sum(-1) / accepted.sum(-1).clamp(min=1))


def surrogate(ratio: Float[Tensor, "G m"], advantage: Float[Tensor, "G m"], clip: float) -> Float[Tensor, ""]:
    """The objective of Eq. (12), to be maximised: the mean of min(s A, clip(s, 1 - c, 1 + c) A) over all groups."""
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()


@dataclass(frozen=True)
class Gto(Loss):
    """GTO: the clipped surrogate of group-standardised, debiased tree rewards, added to a token-level loss.

    What the source says: at each position of a group of m adjacent positions, the draft grows a tree T as in decoding
    (Eq. 8), with the reward r of Eq. (5), and so does the frozen start, with the reward r_ref. R = r - r_ref (Eq. 9),
    A = (R - mean) / (std + epsilon) within the group (Eq. 10). s is the geometric mean of the likelihood ratios along
    the longest accepted sequence of T (Eq. 11); the objective is the mean of min(s A, clip(s, 1 - c, 1 + c) A) over a
    group (Eq. 12), and the whole loss is the token-level loss + w times the negative objective (Eq. 13).

    What it leaves open: the symbols of its formulas and the numbers of its settings are lost in the copy of the source
    that was read, so the defaults for eta, group, clip, epsilon and weight are choices made here. Two readings of
    Eq. (11) are possible: the ratio to the draft that grew T, or to the frozen start. `base` decides; in the first
    reading, with a tree grown for each update, s is 1 in value and the clip never acts. Which sequence is the longest
    accepted one if the target samples: `accepted_tokens` follows one text of the target.

    Where it is wrong: the reward depends on the draft only through the tokens of the tree, so no gradient flows through
    it. While each tree is that of the frozen start, all advantages are 0 and so is the gradient (claim T-START): only
    the token-level loss moves the draft at first. Some positions of a group always have negative advantages, however
    good their trees (claim T-ADV). The reward is not the expected number of accepted tokens (claim T-REWARD).

    What is done here: advantages of equal rewards are exactly 0. A position without an accepted token has the ratio 1
    and no gradient, but its reward counts in the mean of its group.

    Attributes:
        eta: of the reward, Eq. (5); above 0.
        group: m, number of adjacent positions in a group, at least 2.
        clip: c, how far the ratio may move; between 0 and 1.
        epsilon: added to the standard deviation; above 0.
        weight: w.
        passes: passes of the token-level loss, which is EAGLE-3's.
        k: width of the beam by which the draft grows its trees, as in EAGLE-2.
        depth: depth of these trees, at most `passes`.
        groups: number of groups in each text, drawn anew at each step.
        shuffled: whether the rewards of a group are dealt to its positions at random: the control that must not gain.

    Source: Group Tree Optimization, Eq. (5) to (13).
    """

    name: ClassVar[str] = "gto"
    eta: float = 1.0
    group: int = 8
    clip: float = 0.2
    epsilon: float = 1e-6
    weight: float = 0.5
    passes: int = 7
    k: int = 4
    depth: int = 4
    groups: int = 4
    shuffled: bool = False

    def __post_init__(self) -> None:
        check_whole("group", self.group, 2, ": a group of one has no advantage")
        check_counts(1, passes=self.passes, k=self.k, groups=self.groups)
        check_whole("depth", self.depth, 1, most=self.passes)
        check_number("weight", self.weight, 0)
        check_number("clip", self.clip, 0, 1)
        check_number("eta", self.eta, SMALLEST)
        check_number("epsilon", self.epsilon, SMALLEST)

    @property
    def token_loss(self) -> Eagle3:
        """The token-level loss."""
        return Eagle3(passes=self.passes)

    def __call__(
        self,
        now: Float[Tensor, "G m T"],
        base: Float[Tensor, "G m T"],
        accepted: Bool[Tensor, "G m T"],
        rewards: Float[Tensor, "G m"],
        reference_rewards: Float[Tensor, "G m"],
    ) -> Float[Tensor, ""]:
        """The negative objective of G groups, a scalar, without the token-level loss.

        Args:
            now: the draft's log-probability of each token of the longest accepted sequences.
            base: the same of the draft that is compared with.
            accepted: which of the T places hold a token; the others are not read.
            rewards: the rewards of the draft's trees, by `spectheory.gto.draft_tree_reward`.
            reference_rewards: the rewards of the frozen start's trees.

        Raises:
            InputError: shapes do not match, or a group has another size.
        """
        check_shape("now", now, (now.shape[0], self.group, now.shape[2]), "groups of the size that is set")
        for name, one in (("base", base), ("accepted", accepted)):
            check_shape(name, one, now.shape, "the shape of now")
        for name, one in (("rewards", rewards), ("reference_rewards", reference_rewards)):
            check_shape(name, one, now.shape[:2], "one reward for each position of each group")
        advantage = advantages(rewards.double(), reference_rewards.double(), self.epsilon).to(now.dtype)
        return -surrogate(likelihood_ratio(now, base, accepted), advantage, self.clip)
