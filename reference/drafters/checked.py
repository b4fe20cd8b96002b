"""`Checked`: checks every draft of another drafter, for use while you write it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from reference.drafters.drafter import Drafter, Drafting
from reference.logits import Peaks
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule
from spectheory.core.errors import InputError


@dataclass(frozen=True)
class Wrapped(Drafter):
    """Base class of drafters that run another one; the drafts keep its draw rule and shape."""

    drafter: Drafter

    def rule(self, sampling: Sampling) -> DrawRule:
        """See Drafter.rule."""
        return self.drafter.rule(sampling)

    @property
    def family(self) -> str:
        """See Drafter.family."""
        return self.drafter.family

    @property
    def chains(self) -> bool:
        """See Drafter.chains."""
        return self.drafter.chains

    @property
    def paths(self) -> bool:
        """See Drafter.paths."""
        return self.drafter.paths


class Checked(Wrapped):
    """Runs another drafter and checks each draft. On a wrong draft a decoder would fail or write wrong text.

    Raises:
        InputError: raised while decoding: `Draft` refuses the draft, its root is not the last emitted token, it is
            deeper than the context has room for, or a token is not in the vocabulary.
    """

    def start(self, pair: Pair, sampling: Sampling) -> Drafting:
        """See Drafter.start."""
        return _CheckedDrafting(self.drafter.start(pair, sampling), pair.vocab_size)


class _CheckedDrafting(Drafting):
    def __init__(self, drafting: Drafting, vocab_size: int) -> None:
        self.drafting, self.vocab_size, self.root = drafting, vocab_size, -1

    @property
    def taps(self) -> tuple[int, ...]:
        """See Drafting.taps."""
        return self.drafting.taps

    @property
    def deepest(self) -> int:
        """See Drafting.deepest."""
        return self.drafting.deepest

    def observe(self, states: Tensor) -> None:
        """See Drafting.observe."""
        self.drafting.observe(states)

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """See Drafting.read."""
        self.drafting.read(prompt, logits)

    def peaks(self) -> list[Peaks]:
        """See Drafting.peaks."""
        return self.drafting.peaks()

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """See Drafting.commit."""
        self.root = emitted[-1]
        self.drafting.commit(path, emitted, logits)

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """See Drafting.grow."""
        draft = self.drafting.grow(room, rng)
        Draft(draft.tree, draft.tokens, draft.q, draft.draws, draft.rule)
        if draft.tokens[0] != self.root:
            raise InputError(f"tokens[0] is {draft.tokens[0]}, the root must be the last emitted token, {self.root}")
        if draft.tree.max_depth > room:
            raise InputError(f"tree is {draft.tree.max_depth} deep, there is room for {room}: cut it to that depth")
        for node, token in enumerate(draft.tokens):
            if not 0 <= token < self.vocab_size or token != int(token):
                raise InputError(
                    f"tokens[{node}] is {token}, tokens are whole numbers from 0 to {self.vocab_size - 1}: leave "
                    "the node out where no token is left to draw, with reference.drafters.static.pruned"
                )
        return draft
