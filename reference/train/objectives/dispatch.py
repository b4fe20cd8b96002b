"""The objective of any loss for a head."""

from __future__ import annotations

from transformers import PreTrainedModel

from reference.heads import Head
from reference.losses import ChainLoss, Gto, Loss, Talf
from reference.train.objectives.chain import ChainObjective
from reference.train.objectives.groups import DraftTrees, GroupObjective
from reference.train.objectives.lessons import Batching, Objective
from reference.train.objectives.target_trees import TreeObjective
from spectheory.core.errors import InputError


def objective_of(
    loss: Loss,
    head: Head,
    target: PreTrainedModel,
    batching: Batching,
    *,
    start: Head | None = None,
    roots: int = 64,
    trees: DraftTrees | None = None,
) -> Objective:
    """The objective of a loss for a head.

    Args:
        loss: any of `reference.losses.ALL`, with any settings.
        head: the head, attached to the target.
        target: the target.
        batching: the texts.
        start: the frozen start of GTO; the other losses do not read it.
        roots: roots in each text at which TALF builds trees.
        trees: how GTO grows draft trees.

    Raises:
        InputError: the texts are those of another target or lack hidden states, or GTO has no start.
    """
    if isinstance(loss, ChainLoss):
        return ChainObjective(head, target, batching, loss)
    if isinstance(loss, Talf):
        return TreeObjective(head, target, batching, loss, roots)
    assert isinstance(loss, Gto)
    if start is None:
        raise InputError("start must be given for the loss gto: it compares with a frozen start")
    return GroupObjective(head, target, batching, loss, start, trees or DraftTrees())
