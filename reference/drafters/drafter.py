"""The interface of a drafter: `Drafter` holds settings, `Drafting` drafts one text, `DrafterKind` registers it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from reference.host_arrays import Array
from reference.logits import Peaks
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft, DrawRule, Schedule, Tree
from spectheory.core.errors import InputError
from spectheory.core.world import DrawPolicy
from spectheory.verify import Verifier


class Drafting(ABC):
    """Drafts one text. The decoder calls `read` once, then `commit` and `grow` in turns."""

    @property
    def taps(self) -> tuple[int, ...]:
        """Numbers of the target's hidden states that `observe` receives; none by default, then it is never called.

        State i enters layer i of the target; the last state, whose number is that of layers, has passed the final norm.
        """
        return ()

    def observe(self, states: Tensor) -> None:
        """Receive the target's hidden states (n, taps x hidden) at n more tokens of the text, concatenated.

        Called before `read`, with a row for each token of the prompt, and before each `commit` of a draft, with rows
        for its root and its accepted nodes. States of rejected nodes are never passed.
        """
        raise NotImplementedError("a drafting with taps must receive the hidden states")

    @abstractmethod
    def read(self, prompt: list[int], logits: Tensor) -> None:
        """Read the prompt. Row i of `logits` (n, V) has the target's logits for the token after `prompt[i]`."""

    @abstractmethod
    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """Append `emitted` to the text: the tokens of `path`, the accepted nodes of the last draft, and the next token.

        `logits` (n + 1, V) are the target's at all nodes of that draft. At the first call nothing was drafted yet:
        `path` is empty and `logits` is None.
        """

    @abstractmethod
    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """Draft a tree of depth at most `room` whose root is the last emitted token. It is not checked."""

    def peaks(self) -> list[Peaks]:
        """Checks of the draft models' logits, which the decoder runs together with the target's; none by default."""
        return []


class Drafter(ABC):
    """The settings of a drafter: a frozen dataclass that holds no text."""

    def rule(self, sampling: Sampling) -> DrawRule:
        """The rule by which children of a node are drawn; a verifier must be lossless for it.

        The default suits all drafts, because only sample and match may verify them; a drafter that draws overrides it.
        """
        return DrawRule.TOP_K

    @property
    def chains(self) -> bool:
        """Whether every draft is a chain."""
        return False

    @property
    def paths(self) -> bool:
        """Whether every draft consists of independent paths of one length, which share their common prefixes."""
        return self.chains

    @property
    def shape(self) -> Tree | DrawPolicy | None:
        """The shape that it drafts in every cycle; None by default, if it depends on the text."""
        return None

    @abstractmethod
    def start(self, pair: Pair, sampling: Sampling) -> Drafting:
        """A new `Drafting`, for one text.

        Raises:
            InputError: these settings do not fit the models.
        """


def undrawn(tree: Tree, tokens: Array | list[int]) -> Draft:
    """A draft whose children were chosen, not drawn (`DrawRule.TOP_K`); siblings are numbered by rank. Not checked."""
    return Draft._unchecked(tree, tokens, [None] * len(tokens), tree.child_lists, DrawRule.TOP_K)


def require_width(tree: Tree, pair: Pair) -> int:
    """The largest number of children of a node; raises InputError where the draft has fewer tokens to draft."""
    widest = int(tree.rank.max()) + 1
    if widest > pair.drafted_tokens:
        raise InputError(
            f"tree has {widest} children at a node, the vocabulary has {pair.drafted_tokens} tokens: use a narrower "
            "tree"
        )
    return widest


def incompatibility(drafter: Drafter, verifier: Verifier, sampling: Sampling) -> str | None:
    """Why the verifier cannot be used with the drafter, such as "verifies chains only"; None if it can be used."""
    rule = drafter.rule(sampling)
    if rule not in verifier.rules:
        return f"is not lossless for {rule.name}: {rule.value}"
    if verifier.takes == "chains" and not drafter.chains:
        return "verifies chains only"
    if verifier.takes == "paths" and not drafter.paths:
        return "verifies independent paths of one length only"
    return None


COMPARED_BUDGET = 16
"""Number of drafted nodes of the best tree and of every search that are compared."""


@dataclass(frozen=True)
class DrafterKind:
    """A kind of drafter with the settings under which it is compared and tested.

    Attributes:
        compared: makes the drafters of `reference.compare`, by name, from the sampling and the plan (None for a target
            alone).
        greedy: makes drafters whose greedy text is compared with transformers' in tests, with about 300 tokens.
        small: makes drafters whose sampled text is certified in tests, with a vocabulary of four tokens.
    """

    compared: Callable[[Sampling, Schedule | None], dict[str, Drafter]]
    greedy: Callable[[], Iterable[Drafter]]
    small: Callable[[], Iterable[Drafter]]

    @classmethod
    def of(cls, drafter: Drafter, name: str = "", *small: Drafter) -> DrafterKind:
        """The kind of a drafter that runs with the same settings everywhere, or as `small` in tests of four tokens.

        `name` is its name in comparisons; the default is the name of its class.
        """
        return cls(
            compared=lambda sampling, plan: {name or type(drafter).__name__: drafter},
            greedy=lambda: [drafter],
            small=lambda: small or (drafter,),
        )
