"""`Selected`, a drafter that chooses a delayed tree in each cycle by a selector, then draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from reference.drafters import Drafter
from reference.drafters.drawn import DrawnDrafting
from reference.drafters.model import TokenPath
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
    """Drafts one text. The draft reads the token before the root again with the root, to have its state and q there.

    The target's state there comes with the accepted path, and p with the logits of the last draft.
    """

    def __init__(self, pair: Pair, sampling: Sampling, selector: Selector) -> None:
        super().__init__(pair, sampling, Paths(1, 0))
        self.selector = selector
        self.layers = [int(model.config.num_hidden_layers) for model in pair.models]
        self.previous = 0

    @property
    def taps(self) -> tuple[int, ...]:
        return (self.layers[0],)

    def observe(self, states: Tensor) -> None:
        self.target_state = states[-1:]

    def read(self, prompt: list[int], logits: Tensor) -> None:
        super().read(prompt, logits)
        self.model.keep(len(prompt) - 1, [])
        self.p, self.previous = self.sampling.distribution(logits[-1:]), prompt[-1]

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """The last two tokens of the text are pending."""
        if logits is not None:
            self.p = self.sampling.distribution(logits[path[-1:] or [0]])
            self._keep(emitted[:-1])
        self.pending = [self.previous, *emitted][-2:]
        self.previous = emitted[-1]
        self.slots = {(): -1}

    def _keep(self, accepted: list[int]) -> None:
        """Keep the cache rows of the text up to the second last of its tokens so far."""
        if accepted:
            inner = (tuple(accepted[:length]) for length in range(1, len(accepted)))
            self.model.keep(self.committed, [self.slots[prefix] for prefix in inner])
        else:
            self.model.keep(self.committed - 1, [])

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """The tree is chosen before anything is drawn."""
        self.policy = self.selector.tree(self._features()).policy
        return super().grow(room, rng)

    def logits(self, paths: Sequence[TokenPath]) -> Tensor:
        """Those of the root were computed for the choice."""
        return super().logits(paths) if paths[0] else self.root_row

    def _features(self) -> Features:
        """What is known at the root, on the host."""
        self.model.taps = (self.layers[1],)
        logits = self.model.forward(self.model.fed(self.pending))
        states, self.model.taps = self.model.states, ()
        self.root_row, self.committed = logits[1:], self.model.length
        before, here = self.sampling.distribution(logits).split(1)
        scalars = known_scalars(self.p, before, here, [self.committed - 1])
        found = (self.target_state, states[:1], states[1:], scalars)
        return Features(*(one.float().cpu() for one in found))
