"""What every draft drafts under the judge: a static tree with a verifier, or dynamic trees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from reference.drafters import Drafter, Searched, dynamic
from reference.judging.drafts import ForcedDraft
from reference.replaying import require_undrawn
from reference.sampling import Sampling
from spectheory import DrawRule, GreedyText, TargetText, Tree
from spectheory.core.errors import InputError
from spectheory.replay.cycle import Cycle, OneText
from spectheory.replay.drafted_text import DraftedText, drafted, drafted_text, followed_text, ranks_of
from spectheory.replay.reliability import ranked
from spectheory.verify import Greedy, Verifier, name_of, verifier_of


@dataclass(frozen=True, eq=False)
class ForcedRows:
    """One text with p and q at its positions.

    Attributes:
        number: number of the text, which seeds the draws of siblings.
        prompt: the tokens before it.
        text: the text with p and q. At temperature 0 all of p is on the token of the text, and q is the
            draft's distribution at temperature 1.
    """

    number: int
    prompt: list[int]
    text: TargetText

    @property
    def ranked(self) -> tuple[Float[np.ndarray, "depths n ranks"], Float[np.ndarray, "depths n ranks"]]:
        """The draft's largest probabilities, and the target's for the same tokens; see `ranked`."""
        rows = [ranked(self.text.p, q) for q in self.text.q]
        return np.stack([one for one, _ in rows]), np.stack([one for _, one in rows])


class JudgedPolicy(ABC):
    """What is drafted in each cycle, and which verifier is used."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What is drafted, in words."""

    @property
    def identity(self) -> str:
        """What is drafted, with all settings, so that a comparison is never continued with other settings."""
        return self.name

    @property
    @abstractmethod
    def verifying(self) -> str:
        """The verifier's name."""

    @property
    @abstractmethod
    def deepest(self) -> int:
        """The depth that no draft exceeds. A cycle counts if more tokens than this are left of the text."""

    @property
    def tree(self) -> Tree | None:
        """The static tree; None for dynamic trees."""
        return None

    @abstractmethod
    def check(self, sampling: Sampling) -> None:
        """Check that the policy suits texts of this sampling. Raises InputError if not."""

    @abstractmethod
    def drafted(self, draft: ForcedDraft, rows: ForcedRows, sampling: Sampling, seed: int, samples: int) -> DraftedText:
        """What a draft does on one text."""


@dataclass(frozen=True)
class StaticTree(JudgedPolicy):
    """The same tree in every cycle, replayed.

    Attributes:
        shape: a tree with at least one drafted node.
        verifier: a lossless verifier; `Greedy` at temperature 0.
        rule: how children are drawn; nothing is drawn at temperature 0.

    Raises:
        InputError: the tree has no drafted node, or the verifier cannot be replayed on it.
    """

    shape: Tree
    verifier: Verifier
    rule: DrawRule | None = None

    def __post_init__(self) -> None:
        if not self.shape.budget:
            raise InputError("tree must have at least one drafted node, got the root alone: all drafts would be equal")
        self._cycle()

    @classmethod
    def usual(
        cls, shape: Tree, sampling: Sampling, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> StaticTree:
        """The tree as it is usually verified.

        Above temperature 0 the usual verifier is block verification for chains, otherwise Traversal. Unless `rule` is
        given, children of chains are drawn independently, those of other trees without replacement, if the verifier
        takes such drafts.
        """
        if sampling.greedy:
            return cls(shape, Greedy())
        by = verifier or verifier_of("Block" if shape.is_chain else "Traversal")
        drawn = DrawRule.IID if shape.is_chain else DrawRule.NO_REPLACEMENT
        return cls(shape, by, rule or (drawn if drawn in by.rules else by.rules[0]))

    def _cycle(self) -> Cycle:
        return Cycle(self.shape, self.verifier, None if isinstance(self.verifier, Greedy) else self.rule)

    @property
    def name(self) -> str:
        """See JudgedPolicy.name."""
        drawn = "" if self.rule is None or isinstance(self.verifier, Greedy) else f", drawn by {self.rule.name}"
        return drafted(self.shape) + drawn

    @property
    def verifying(self) -> str:
        """See JudgedPolicy.verifying."""
        return name_of(self.verifier)

    @property
    def deepest(self) -> int:
        """See JudgedPolicy.deepest."""
        return self.shape.max_depth

    @property
    def tree(self) -> Tree:
        """See JudgedPolicy.tree."""
        return self.shape

    def check(self, sampling: Sampling) -> None:
        """See JudgedPolicy.check."""
        if sampling.greedy != isinstance(self.verifier, Greedy):
            wanted = "Greedy" if sampling.greedy else "a verifier of sampled text"
            raise InputError(f"verifier must be {wanted} for texts of {sampling}, got {self.verifying}")

    def drafted(self, draft: ForcedDraft, rows: ForcedRows, sampling: Sampling, seed: int, samples: int) -> DraftedText:
        """See JudgedPolicy.drafted."""
        text = GreedyText(ranks_of(rows.text)) if sampling.greedy else rows.text
        return drafted_text(OneText(text, [seed, rows.number], samples), self._cycle(), *rows.ranked)


@dataclass(frozen=True)
class DynamicTrees(JudgedPolicy):
    """Trees that depend on the draft, followed cycle by cycle: greedy decoding, or sample and match.

    Attributes:
        drafter: settings of a drafter whose rule is `TOP_K`.
        limit: the depth that no draft exceeds.
        called: its name.
    """

    drafter: Drafter
    limit: int
    called: str

    @property
    def name(self) -> str:
        """See JudgedPolicy.name."""
        return self.called

    @property
    def identity(self) -> str:
        """See JudgedPolicy.identity."""
        return f"{self.called}, {self.drafter}"

    @property
    def verifying(self) -> str:
        """See JudgedPolicy.verifying."""
        return "longest match"

    @property
    def deepest(self) -> int:
        """See JudgedPolicy.deepest."""
        return self.limit

    def check(self, sampling: Sampling) -> None:
        """See JudgedPolicy.check."""
        require_undrawn(self.drafter, sampling)

    def drafted(self, draft: ForcedDraft, rows: ForcedRows, sampling: Sampling, seed: int, samples: int) -> DraftedText:
        """See JudgedPolicy.drafted."""
        cycles = draft.follow(self.drafter, rows.prompt, rows.text.tokens.tolist(), sampling)
        deepest = max((depth for _, _, depth in cycles), default=0)
        if deepest > self.limit:
            raise InputError(
                f"limit must be at least {deepest}, the depth of a draft of {self.called}, got {self.limit}"
            )
        return followed_text(cycles, len(rows.text), self.limit, *rows.ranked)


def searched(name: str) -> DynamicTrees:
    """The dynamic trees of a search that `reference.compare` compares, by its name there, such as "EAGLE-2".

    Raises:
        InputError: there is no search of this name.
    """
    known = dynamic.searches()
    if name not in known:
        raise InputError(f"search must be one of {', '.join(known)}, got {name!r:.60}")
    drafter = known[name]
    assert isinstance(drafter, Searched)
    return DynamicTrees(drafter, getattr(drafter.search, "depth", drafter.search.budget), f"{name}, {drafter.search}")
