"""The layout of vLLM's V1 rejection sampler: chains of different lengths, one after another in flat arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from spectheory.certify.certificate import text
from spectheory.certify.layouts.drafting import BatchOptions, Setting, converted, logits
from spectheory.certify.play import Play
from spectheory.certify.rows import drawn
from spectheory.core.checks import check_whole
from spectheory.core.world import World


@dataclass(frozen=True)
class VllmInputs:
    """The arguments of `rejection_sample` in vLLM: n rows (requests) with t drafted tokens in all.

    Attributes:
        draft_token_ids: (t,) drafted ids, those of row 0 first.
        num_draft_tokens: number of drafted tokens of each row, as a list; it may be 0.
        max_spec_len: largest number of drafted tokens of a row.
        cu_num_draft_tokens: (n,) cumulative sums of `num_draft_tokens`.
        draft_probs: (t, size) the draft's distribution at each drafted token; None for one-hot drafts (n-gram).
        target_probs: (t, size) the target's distribution at each drafted token.
        target_logits: (t, size) their logarithms.
        bonus_token_ids: (n, 1) a token of the target for each row, to be emitted if all its drafts are accepted.
    """

    draft_token_ids: Any
    num_draft_tokens: list[int]
    max_spec_len: int
    cu_num_draft_tokens: Any
    draft_probs: Any
    target_probs: Any
    target_logits: Any
    bonus_token_ids: Any

    converted = converted


def vllm_play(
    sample: Callable[[VllmInputs, np.random.Generator], Any],
    world: World,
    *,
    depth: int = 3,
    one_hot: bool = False,
    ragged: bool = True,
    **options: Unpack[BatchOptions],
) -> Play:
    """A play of a sampler that takes drafts in vLLM's layout.

    Args:
        sample: function (inputs, rng) -> (n, max_spec_len + 1) emitted ids, -1 after the last one of each row.
        world: world with the distributions of target and draft. Its target is what the sampler should reproduce.
        depth: largest number of drafted tokens of a row.
        one_hot: whether the drafts are given without probabilities, as those of an n-gram drafter.
        ragged: whether rows have different numbers of drafted tokens, from 0 to `depth`, by chance.
        options: `vocab_size`, the number of tokens V of the world; `size`, the vocabulary of the sampler, over which
            they are spread (`spread_ids`), by default V; `given`, the target's distributions as the sampler gets them
            if it processes them itself, by default `world.p`; `contexts`, in which the sampler is tested; `length`, the
            number of tokens that are compared, by default enough for two cycles; `batch`, the number of rows in one
            call, by default 64; `name`, the name of the world in the certificate.
    """
    check_whole("depth", depth, 1, ": it is the largest number of drafted tokens")
    setting = Setting(world, **options)
    return setting.play(_VllmStep(sample, setting, depth, one_hot, ragged), depth)


class _VllmStep:
    """A step that drafts chains and gives them to the sampler."""

    def __init__(self, sample: Any, setting: Setting, depth: int, one_hot: bool, ragged: bool) -> None:
        self.sample, self.table, self.vocabulary = sample, setting.table, setting.vocabulary
        self.depth, self.one_hot, self.ragged = depth, one_hot, ragged
        self._drafts = np.zeros((0, depth), int)

    def __call__(self, contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rows, depth = len(contexts), self.depth
        counts = rng.integers(0, depth + 1, rows) if self.ragged else np.full(rows, depth)
        counts[0] = max(counts[0], 1)
        tokens, nodes = np.zeros((rows, depth), int), np.zeros((rows, depth + 1), int)
        nodes[:, 0] = self.table.at(self.vocabulary.tokens(contexts))
        for place in range(depth):
            tokens[:, place] = drawn(self.table.q[nodes[:, place]], rng)
            nodes[:, place + 1] = self.table.below(nodes[:, place], tokens[:, place])
        is_drafted = np.arange(depth) < counts[:, None]
        self._drafts = np.where(is_drafted, tokens, -1)
        at, ids = nodes[:, :-1][is_drafted], self.vocabulary.ids
        target_probs = self.vocabulary.widened(self.table.given[at])
        bonus = drawn(self.table.p[nodes[np.arange(rows), counts]], rng)
        inputs = VllmInputs(
            draft_token_ids=ids[tokens[is_drafted]].astype(np.int32),
            num_draft_tokens=counts.tolist(),
            max_spec_len=int(counts.max()),
            cu_num_draft_tokens=np.cumsum(counts).astype(np.int32),
            draft_probs=None if self.one_hot else self.vocabulary.widened(self.table.q[at]),
            target_probs=target_probs,
            target_logits=logits(target_probs),
            bonus_token_ids=ids[bonus][:, None].astype(np.int32),
        )
        return np.asarray(self.sample(inputs, rng))

    def drafts(self, row: int) -> str:
        """The drafts of a row of the last call."""
        return f"drafted {text(tuple(self._drafts[row][self._drafts[row] >= 0].tolist()))}"
