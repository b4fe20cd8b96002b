"""What a loss needs from the training loop, and the base class of all losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

if TYPE_CHECKING:
    from reference.heads.config import Kind


@dataclass(frozen=True)
class Needs:
    """What a training loop must compute before it can call a loss.

    Attributes:
        passes: number of passes of the draft. From the second pass on, the draft reads the features of its last pass.
        detached: whether no gradient flows through the features from one pass to the next.
        target_features: whether the target's hidden states at the predicted positions are needed.
        probabilities: whether the target's next-token distributions are needed.
        beam_width: k of the target's beam trees, 0 if no beam trees are needed. Their depth is `passes`.
        group: number of adjacent positions in a group of draft trees, 0 if no draft trees are needed.
    """

    passes: int = 1
    detached: bool = False
    target_features: bool = False
    probabilities: bool = True
    beam_width: int = 0
    group: int = 0

    def __post_init__(self) -> None:
        check_whole("passes", self.passes, 1)
        check_whole("beam_width", self.beam_width, 0)
        check_whole("group", self.group, 0)
        if self.beam_width and not self.probabilities:
            raise InputError(
                "probabilities must be True if beam_width is above 0: the nodes of beam trees carry distributions"
            )


@dataclass(frozen=True)
class Loss(ABC):
    """A training loss with its settings; the fields of each subclass are the settings.

    Attributes:
        name: the name by which the command line knows the loss.
        head: the kind of head that the loss was made for.
    """

    name: ClassVar[str]
    head: ClassVar[Kind] = "eagle3"

    @property
    @abstractmethod
    def needs(self) -> Needs:
        """What a training loop must compute before it can call this loss."""


def check_weights(**weights: float) -> None:
    """Refuse a weight that is not a finite number of at least 0."""
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise InputError(f"{name} must be a finite number of at least 0, got {weight!r:.80}")
