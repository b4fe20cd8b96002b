"""Training losses of draft heads, by name; each is a frozen dataclass that says what it needs."""

from reference.losses.beam_trees import BeamTrees, TargetForward, beam_trees
from reference.losses.chain import ChainLoss, Rows
from reference.losses.eagle import Eagle
from reference.losses.eagle3 import Eagle3, OnDraftVocabulary, on_draft_vocabulary
from reference.losses.gto import Gto, adjacent_groups, longest_accepted, tree_rewards
from reference.losses.hass import Hass
from reference.losses.kl import Kl, cross_entropy, kl
from reference.losses.lk import LkAlpha, LkLambda
from reference.losses.marginal import Marginal
from reference.losses.needs import Loss, Needs
from reference.losses.settings import with_settings
from reference.losses.talf import Talf, TreeStep, unroll_tree
from reference.losses.tv import Tv, acceptance
from reference.losses.unrolling import Pass, Step, attended, unroll
from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown

__all__ = [
    "ALL",
    "BeamTrees",
    "ChainLoss",
    "Eagle",
    "Eagle3",
    "Gto",
    "Hass",
    "Kl",
    "LkAlpha",
    "LkLambda",
    "Loss",
    "Marginal",
    "Needs",
    "OnDraftVocabulary",
    "Pass",
    "Rows",
    "Step",
    "Talf",
    "TargetForward",
    "TreeStep",
    "Tv",
    "acceptance",
    "adjacent_groups",
    "attended",
    "beam_trees",
    "cross_entropy",
    "kl",
    "longest_accepted",
    "loss_of",
    "on_draft_vocabulary",
    "tree_rewards",
    "unroll",
    "unroll_tree",
    "with_settings",
]

ALL: tuple[Loss, ...] = (Eagle(), Hass(), Eagle3(), Kl(), Tv(), LkAlpha(), LkLambda(), Marginal(), Talf(), Gto())
"""Every loss, with the settings of its source."""


def loss_of(name: str) -> Loss:
    """The loss of that name with the settings of its source; `dataclasses.replace` changes them.

    Raises:
        InputError: there is none.

    >>> loss_of("talf").needs.beam_width
    4
    """
    for loss in ALL:
        if loss.name == name:
            return loss
    raise InputError(unknown("loss", name, (loss.name for loss in ALL)))
