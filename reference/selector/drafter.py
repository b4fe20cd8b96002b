"""`Selected`, a drafter that chooses a delayed tree in each cycle by a selector, then draws it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reference.drafters import Drafter
from reference.drafters.drawn import DrawnDrafting
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from reference.selector.network import Features, known_scalars
from reference.selector.selector import Selector
from spectheory import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.core.world import Paths


@dataclass(frozen=True)
class Selected(Drafter):
    """Draws the delayed tree that a selector chooses in each cycle.

    The choice depends on the text alone: the models' states and distributions at the root and the token before, which
    are known before the draft is drawn. Given the choice, the paths are independent draws, so a verifier that is
    lossless for such draws keeps the target's distribution.

    Source: Dynamic Delayed Tree Expansion, Section 6.
    """

    selector: Selector

    def rule(self, sampling: Sampling) -> DrawRule:
        return DrawRule.IID

    @property
    def paths(self) -> bool:
        return True

    def start(self, pair: Pair, sampling: Sampling) -> SelectedDrafting:
        if sampling.greedy:
            raise InputError("a selector draws its drafts and temperature 0 draws nothing: use a PlannedTree")
        pair.require_draft_model("a selector")
        self.selector.require(pair.fingerprint, sampling)
        return SelectedDrafting(pair, sampling, self.selector)


class SelectedDrafting(DrawnDrafting):
    """Drafts one text. The draft's features are of a forward of the whole text, one more in each cycle.

    The target's state comes with the accepted path, and p with the logits of the last draft.
    """

    def __init__(self, pair: Pair, sampling: Sampling, selector: Selector) -> None:
        super().__init__(pair, sampling, Paths(1, 0))
        self.pair, self.selector = pair, selector

    @property
    def taps(self) -> tuple[int, ...]:
        return (int(self.pair.target.config.num_hidden_layers),)

    def observe(self, states: Tensor) -> None:
        self.target_state = states[-1:]

    def read(self, prompt: list[int], logits: Tensor) -> None:
        super().read(prompt, logits)
        self.text, self.p = list(prompt), self.sampling.distribution(logits[-1:])

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        super().commit(path, emitted, logits)
        self.text += emitted
        if logits is not None:
            self.p = self.sampling.distribution(logits[path[-1:] or [0]])

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """The tree is chosen before anything is drawn."""
        self.policy = self.selector.tree(self._features()).policy
        return super().grow(room, rng)

    def _features(self) -> Features:
        text = torch.tensor([self.text], device=self.pair.device)
        out = self.pair.require_draft()(text, output_hidden_states=True, logits_to_keep=2)
        before, here = self.sampling.distribution(out.logits[0, :, : self.pair.vocab_size].float()).split(1)
        scalars = known_scalars(self.p, before, here, [len(self.text) - 1])
        found = (self.target_state, *out.hidden_states[-1][0, -2:].split(1), scalars)
        return Features(*(one.float().cpu() for one in found))
