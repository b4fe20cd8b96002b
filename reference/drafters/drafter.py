"""What the decoder asks of whatever drafts."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from reference.logits import Peaks
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule


class Drafting(ABC):
    """One text that is being drafted, cycle after cycle: `read` once, then `commit` and `grow` in turns."""

    @abstractmethod
    def read(self, prompt: list[int], logits: Tensor) -> None:
        """Begin a text. `logits` (n, V) are the target's behind each token of the prompt."""

    @abstractmethod
    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """Go on behind `emitted`: the tokens of the accepted nodes `path` of the last draft, and the one that followed.

        After the prompt `path` is empty. `logits` (n + 1, V) are the target's at each node of that draft.
        """

    @abstractmethod
    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """A draft below the last committed token, at most `room` deep; `tokens` a tensor (n + 1,), nothing checked."""

    def peaks(self) -> list[Peaks]:
        """Those of the models that draft, which the decoder checks together with the target's."""
        return []


class Drafter(ABC):
    """How drafts are made; frozen settings, without a text."""

    @abstractmethod
    def rule(self, sampling: Sampling) -> DrawRule:
        """How the children of a node are drawn: what a verifier must be lossless for."""

    @property
    def family(self) -> str:
        """What its results are grouped with in tables and figures; override it where a draft model is run."""
        return "model-free"

    @property
    def chains(self) -> bool:
        """Whether every draft is a chain."""
        return False

    @property
    def paths(self) -> bool:
        """Whether every draft is of independent paths of one length, which share their common beginnings."""
        return self.chains

    @abstractmethod
    def start(self, pair: Pair, sampling: Sampling) -> Drafting:
        """Begin a text.

        Raises:
            InputError: the models cannot be drafted for like this.
        """
