"""`Checked`: checks every draft of another drafter."""

from __future__ import annotations

from dataclasses import dataclass

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
        return self.drafter.rule(sampling)

    @property
    def chains(self) -> bool:
        return self.drafter.chains

    @property
    def paths(self) -> bool:
        return self.drafter.paths

    def start(self, pair: Pair, sampling: Sampling) -> Drafting:
        """The other drafter's drafting, whose drafts are checked."""
        drafting, emitted = self.drafter.start(pair, sampling), [-1]
        commit, grow = drafting.commit, drafting.grow

        def committed(path: list[int], tokens: list[int], logits: Tensor | None = None) -> None:
            emitted.extend(tokens)
            commit(path, tokens, logits)

        def grown(room: int, rng: Uniforms | None) -> Draft:
            draft = grow(room, rng)
            _check(draft, emitted[-1], room, pair.vocab_size)
            return draft

        drafting.commit, drafting.grow = committed, grown  # type: ignore[method-assign]
        return drafting


def _check(draft: Draft, root: int, room: int, vocab_size: int) -> None:
    """Raise InputError for a draft that a decoder cannot verify; `root` is the last emitted token."""
    if draft.rule is DrawRule.NO_REPLACEMENT and min(draft.tokens[1:], default=0) == -1:
        draft, _ = pruned(draft, [token != -1 for token in draft.tokens])
    Draft(draft.tree, draft.tokens, draft.q, draft.draws, draft.rule)
    if draft.tokens[0] != root:
        raise InputError(f"tokens[0] is {draft.tokens[0]}, the root must be the last emitted token, {root}")
    if draft.tree.max_depth > room:
        raise InputError(f"tree is {draft.tree.max_depth} deep, there is room for {room}: cut it to that depth")
    for node, token in enumerate(draft.tokens):
        if not 0 <= token < vocab_size or token != int(token):
            raise InputError(
                f"tokens[{node}] is {token}, tokens are whole numbers from 0 to {vocab_size - 1}: leave "
                "the node out where no token is left to draw, or give it the token -1"
            )
