"""`replay_drafter`: the cycles of a drafter that draws nothing, such as a dynamic tree, on texts of the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float

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

OFF_TEXT = (
    "drafter reads the target's logits at rejected nodes, which are not in the text: replay it with "
    "harvest_rejected=False if it has that setting, or decode with it"
)


class OffTextError(InputError):
    """The drafter reads logits of the target at rejected nodes, which a replay does not compute."""


class _TextLogits:
    """Stands in for the target's logits at the nodes of a draft; knows only the accepted nodes, which are in the text.

    Any other use raises OffTextError.
    """

    def __init__(self, nodes: int, path: list[int], read: Callable[[], torch.Tensor]) -> None:
        self._nodes, self._accepted, self._read = nodes, [0, *path], read

    def __len__(self) -> int:
        return self._nodes

    def __getitem__(self, nodes: list[int]) -> torch.Tensor:
        if not set(nodes) <= set(self._accepted):
            raise OffTextError(OFF_TEXT)
        return self._read()[[self._accepted.index(node) for node in nodes]]

    def __getattr__(self, name: str) -> Any:
        raise OffTextError(OFF_TEXT)


@torch.inference_mode()
def replay_drafter(
    pair: Pair, drafter: Drafter, prompts: Sequence[list[int]], texts: Sequence[list[int]], sampling: Sampling
) -> Replayed:
    """The cycles of a drafter that draws nothing, with greedy decoding or sample and match, on texts of the target.

    Dynamic trees, whose shape depends on the draft, are replayed in this way: the draft alone runs where cycles start,
    and each cycle keeps the longest match of its tree with the text. The target reads the prompts, and the text itself
    if the draft is a head or the drafter asks for logits at accepted nodes. A drafter that also reads them at rejected
    nodes cannot be replayed: the text does not determine its cycles (claim R-REJECTED).

    Args:
        pair: target and draft.
        drafter: settings of a drafter whose rule is `TOP_K`.
        prompts: the tokens before each text.
        texts: tokens that the target generated under `sampling`.
        sampling: temperature, top-k and top-p of the texts.

    Raises:
        InputError: the drafter draws its children, prompts and texts are not those of this pair (see
            `check_continued`), or the texts are too short for a whole cycle.
        OffTextError: the drafter reads the target's logits at rejected nodes.
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
    target = _KnownText(pair, prompt + text, drafting.taps)
    before = len(prompt)
    if drafting.taps:
        drafting.observe(target.states(before, before))
    drafting.read(prompt, target.logits(before, before))
    settle(*drafting.peaks())
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
        read = before + position + len(path), len(path) + 1
        if drafting.taps:
            drafting.observe(target.states(*read))
        logits = _TextLogits(len(tokens), path, partial(target.logits, *read))
        drafting.commit(path, emitted, cast(torch.Tensor, logits))
        position, room = position + len(emitted), room - len(emitted)
    return found


class _KnownText:
    """The target on tokens that are there already. It reads as few of them as are asked for, in order.

    If a draft reads its hidden states, which it does at all tokens, the target reads all of them at once.
    """

    def __init__(self, pair: Pair, tokens: list[int], taps: tuple[int, ...]) -> None:
        self.tokens, self.device, self.first = tokens, pair.device, 0
        self.model = CachedModel(pair.target, pair.vocab_size, f"target {pair.names[0]}")
        self.model.taps = taps
        self.read = torch.empty(0)

    def logits(self, end: int, count: int) -> Float[torch.Tensor, "count V"]:
        """Logits after each of the last `count` of the first `end` tokens, which one forward has read."""
        rows = self._rows(end, count)
        return self.read[rows]

    def states(self, end: int, count: int) -> Float[torch.Tensor, "count states"]:
        """Hidden states at the last `count` of the first `end` tokens."""
        rows = self._rows(end, count)
        return self.model.states[rows]

    def _rows(self, end: int, count: int) -> slice:
        """The rows of these tokens in the last forward, which runs now if `end` was not read before."""
        if self.model.length < end:
            self.first = self.model.length
            unread = self.tokens[self.first : len(self.tokens) if self.model.taps else end]
            self.read = self.model.forward(torch.tensor([unread], device=self.device))
            settle(self.model.peaks)
        return slice(end - count - self.first, end - self.first)
