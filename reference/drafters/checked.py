"""`Checked`: checks every draft of another drafter, for use while you write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from reference.drafters.drafter import Drafter, Drafting
from reference.drafters.static import pruned
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft, DrawRule
from spectheory.core.errors import InputError


@dataclass(frozen=True)
class Checked(Drafter):
    """Runs another drafter and checks each draft. On a wrong draft a decoder would fail or write wrong text.

    Raises:
        InputError: raised while decoding: `Draft` refuses the draft, its root is not the last emitted token, it is
            deeper than the context has room for, or a token is not in the vocabulary.
    """

    drafter: Drafter

    def rule(self, sampling: Sampling) -> DrawRule:
        """The rule of the other drafter."""
        return self.drafter.rule(sampling)

    @property
    def chains(self) -> bool:
        """Whether the other drafter drafts chains."""
        return self.drafter.chains

    @property
    def paths(self) -> bool:
        """Whether the other drafter drafts paths."""
        return self.drafter.paths

    def start(self, pair: Pair, sampling: Sampling) -> Drafting:
        """A drafting that checks what the other drafter's drafting returns."""
        return cast(Drafting, _CheckedDrafting(self.drafter.start(pair, sampling), pair.vocab_size))


class _CheckedDrafting:
    """Has everything of another drafting, with `commit` and `grow` in between."""

    def __init__(self, drafting: Drafting, vocab_size: int) -> None:
        self.drafting, self.vocab_size, self.root = drafting, vocab_size, -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.drafting, name)

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        self.root = emitted[-1]
        self.drafting.commit(path, emitted, logits)

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        grown = self.drafting.grow(room, rng)
        draft = grown
        if grown.rule is DrawRule.NO_REPLACEMENT and min(grown.tokens[1:], default=0) == -1:
            draft, _ = pruned(grown, [token != -1 for token in grown.tokens])
        Draft(draft.tree, draft.tokens, draft.q, draft.draws, draft.rule)
        if draft.tokens[0] != self.root:
            raise InputError(f"tokens[0] is {draft.tokens[0]}, the root must be the last emitted token, {self.root}")
        if draft.tree.max_depth > room:
            raise InputError(f"tree is {draft.tree.max_depth} deep, there is room for {room}: cut it to that depth")
        for node, token in enumerate(draft.tokens):
            if not 0 <= token < self.vocab_size or token != int(token):
                raise InputError(
                    f"tokens[{node}] is {token}, tokens are whole numbers from 0 to {self.vocab_size - 1}: leave "
                    "the node out where no token is left to draw, or give it the token -1"
                )
        return grown
