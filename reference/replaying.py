"""`replay_drafter`: the cycles of a drafter that draws nothing, such as a dynamic tree, on texts of the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch

from reference.cached_model import CachedModel
from reference.drafters import Drafter
from reference.logits import settle
from reference.models import Pair
from reference.sampling import Sampling
from reference.token_checks import check_continued
from spectheory import DrawRule
from spectheory.core.errors import InputError
from spectheory.replay import Replayed
from spectheory.verify import walk


class _OffText:
    """Stands in for the target's logits at the nodes of a draft. Rejected nodes are not in the text, so nothing is."""

    def _refused(self, *_: object) -> Any:
        raise InputError(
            "drafter reads the target's logits at drafted nodes, which are not in the text: decode with it"
        )

    __len__ = __getitem__ = __getattr__ = _refused


@torch.inference_mode()
def replay_drafter(
    pair: Pair, drafter: Drafter, prompts: Sequence[list[int]], texts: Sequence[list[int]], sampling: Sampling
) -> Replayed:
    """The cycles of a drafter that draws nothing, with greedy decoding or sample and match, on texts of the target.

    Dynamic trees, whose shape depends on the draft, are replayed in this way: the draft alone runs where cycles start,
    and each cycle keeps the longest match of its tree with the text. The target reads the prompts, and the texts too
    if the draft is a head. A drafter that reads the target's logits at drafted nodes cannot be replayed: the text does
    not determine its cycles (claim R-REJECTED).

    Args:
        pair: target and draft.
        drafter: settings of a drafter whose rule is `TOP_K`.
        prompts: the tokens before each text.
        texts: tokens that the target generated under `sampling`.
        sampling: temperature, top-k and top-p of the texts.

    Raises:
        InputError: the drafter draws its children, prompts and texts are not those of this pair (see
            `check_continued`), the texts are too short for a whole cycle, or the drafter reads the target's logits at
            drafted nodes.
    """
    check_continued(pair, prompts, texts)
    if (rule := drafter.rule(sampling)) is not DrawRule.TOP_K:
        raise InputError(
            f"drafter {drafter} draws by {rule.name}, and only a drafter that draws nothing at random can be followed "
            "along a text: replay its tree or draw policy with Replays, which takes a draw rule"
        )
    found = [_followed(pair, drafter, *one, sampling) for one in zip(prompts, texts, strict=True)]
    deepest = max((depth for one in found for _, _, depth in one), default=0)
    kept = [
        [accepted for start, accepted, _ in one if start + deepest < len(text)]
        for one, text in zip(found, texts, strict=True)
    ]
    cycles = np.array([len(one) for one in kept])
    if not cycles.any():
        longest = max(map(len, texts), default=0)
        raise InputError(
            f"texts must be longer than a cycle of depth {deepest}, the longest has {longest} tokens: give longer texts"
        )
    return Replayed(
        emitted=cycles + [sum(one) for one in kept],
        cycles=cycles,
        variance=0 * cycles,
        accepted=np.bincount([accepted for one in kept for accepted in one], minlength=deepest + 1),
    )


@torch.inference_mode()
def _followed(
    pair: Pair, drafter: Drafter, prompt: list[int], text: list[int], sampling: Sampling
) -> list[tuple[int, int, int]]:
    """(Start, accepted tokens, depth of the draft) of each cycle on one text."""
    drafting, room = drafter.start(pair, sampling), pair.context - len(prompt) - 1
    target, before = CachedModel(pair.target, pair.vocab_size, f"target {pair.names[0]}"), len(prompt)
    target.taps = drafting.taps
    read = [*prompt, *text] if target.taps else prompt
    logits = target.forward(torch.tensor([read], device=pair.device))
    if target.taps:
        drafting.observe(target.states[:before])
    drafting.read(prompt, logits[:before])
    settle(target.peaks, *drafting.peaks())
    drafting.commit([], text[:1])
    position, found = 1, []
    while position < len(text):
        draft = drafting.grow(room, None)
        tokens = torch.as_tensor(draft.tokens).tolist()
        following = iter(text[position:])
        path, last = walk(draft.draws, tokens, lambda node: next(following, -1))  # noqa: B023
        found.append((position, len(path), draft.tree.max_depth))
        if last < 0:
            break
        emitted = text[position : position + len(path) + 1]
        if target.taps:
            drafting.observe(target.states[before + position - 1 :][: len(emitted)])
        drafting.commit(path, emitted, cast(torch.Tensor, _OffText()))
        position, room = position + len(emitted), room - len(emitted)
    return found
