"""The interface of a drafter: `Drafter` holds settings, `Drafting` drafts one text."""

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
        """Read the prompt. Row i of `logits` (n, V) is the target's, for the token after `prompt[i]`."""

    @abstractmethod
    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """Append `emitted` to the text: the tokens of the accepted nodes `path` of the last draft, and the next token.

        After the prompt `path` is empty. Row u of `logits` (n + 1, V) is the target's at node u of that draft.
        """

    @abstractmethod
    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """A draft whose root is the last committed token, at most `room` deep; the decoder does not check it."""

    def peaks(self) -> list[Peaks]:
        """Checks of the models that draft; the decoder settles them together with the target's."""
        return []


class Drafter(ABC):
    """How drafts are made; frozen settings, without a text."""

    @abstractmethod
    def rule(self, sampling: Sampling) -> DrawRule:
        """How the children of a node are drawn; a verifier must be lossless for this rule."""

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
        """Whether every draft consists of independent paths of one length, which share their common prefixes."""
        return self.chains

    @abstractmethod
    def start(self, pair: Pair, sampling: Sampling) -> Drafting:
        """Begin a text.

        Raises:
            InputError: these settings do not fit the models.
        """
