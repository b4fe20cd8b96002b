"""Replays of a recorded trace: by its ranks at temperature 0, else by p and q from one forward of each text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float

from reference.cached_model import CachedModel
from reference.drafters import Drafter
from reference.forced_logits import forced_texts
from reference.logits import settle
from reference.models import Attention, Pair, load_pair
from reference.part_files import short_hash, stamp_of
from reference.sampling import Sampling
from reference.token_checks import check_continued
from reference.tracing import PROMPTS, by_request, ranks
from spectheory import Acceptance, DrawRule, Provenance
from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.core.json_values import parse
from spectheory.replay import GreedyText, Replayed, Replays
from spectheory.verify import walk


def traced_replays(folder: Path, rates: Acceptance | None = None) -> tuple[Replays, Provenance]:
    """The texts of a trace, ready to replay, and the provenance of the trace.

    Above temperature 0 the pair is loaded from the folders that the trace names, as it was when it was recorded.

    Args:
        folder: folder of the trace.
        rates: acceptance rates that are used with these texts.

    Raises:
        InputError: as `replays`; the pair is no longer where the trace names it; or `rates` were counted with another
            sampling than that of the trace.
    """
    by_request(folder, "target_token")
    stamp = stamp_of(folder)
    if rates is not None and rates.temperature is not None and rates.provenance.sampling != stamp.sampling:
        raise InputError(
            f"trace {folder} has {stamp.sampling}, but the acceptance rates have {rates.provenance.sampling}: "
            "use the rates of this trace"
        )
    return replays(folder, traced_pair(stamp) if stamp.temperature else None), stamp


def traced_pair(stamp: Provenance) -> Pair:
    """The pair of a trace, loaded from the folders that its provenance names, as it was when it was recorded."""
    return load_pair(
        str(stamp.target),
        str(stamp.draft),
        device=stamp.device or "cpu",
        dtype=getattr(torch, (stamp.dtype or "float32").removeprefix("torch.")),
        attention=cast(Attention, stamp.attention or "sdpa"),
    )


def replays(folder: Path, pair: Pair | None = None, *, seed: int = 0, samples: int = 1) -> Replays:
    """The texts of a trace, ready to replay any tree and verifier on them.

    Args:
        folder: folder of the trace.
        pair: the pair that the trace was recorded with; needed above temperature 0.
        seed: seed of the drafts that are drawn in addition to the tokens of a text.
        samples: see `Replays`.

    Raises:
        InputError: the folder holds no trace or a damaged one, it was recorded above temperature 0 and `pair` is not
            given or is another pair, or it does not hold its prompts.
    """
    texts = by_request(folder, "target_token")
    stamp = stamp_of(folder)
    limit = None if (known := stamp.settings.get("deepest")) is None else int(str(known))
    if not stamp.temperature:
        candidates = int(str(stamp.settings["candidates"]))
        return Replays((GreedyText(one, candidates) for one in ranks(folder)), limit=limit)
    if pair is None:
        raise InputError(f"pair must be given to replay a trace at temperature {stamp.temperature}, got None")
    prompts = traced_prompts(folder, pair)[: len(texts)]
    depths = int(str(stamp.settings.get("depths", 1)))
    forced = forced_texts(pair, prompts, [text.tolist() for text in texts], Sampling.of(stamp), depths)
    return Replays(forced, seed=seed, samples=samples, limit=limit)


def traced_prompts(folder: Path, pair: Pair) -> list[list[int]]:
    """The prompts of a trace that was recorded with `pair`.

    Raises:
        InputError: the trace was recorded with another pair, or does not hold its prompts.
    """
    stamp = stamp_of(folder)
    recorded = stamp.settings["weights"]
    if recorded != pair.fingerprint:
        raise InputError(
            f"pair has weights {pair.fingerprint}, the trace in {folder} was recorded with {recorded} "
            f"({stamp.target} with {stamp.draft}): p and q must come from the same models"
        )
    if not (folder / PROMPTS).exists():
        raise InputError(f"{folder} lacks {PROMPTS}, without which p and q cannot be computed: record the trace again")
    prompts = parse(read_text(folder / PROMPTS), str(folder / PROMPTS))
    if short_hash(prompts) != stamp.settings["prompts"]:
        raise InputError(f"{folder / PROMPTS} does not hold the prompts of this trace: record the trace again")
    return prompts


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
        draft = drafting.grow(min(room, drafting.deepest), None)
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
