"""Drafts for tests of the judge, and slow renderings of what it reads."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

import spectheory as st
from reference.forced_logits import forced_texts
from reference.judging import ForcedBatch, ForcedDraft, HeldOutTexts, PairDraft, StaticTree
from reference.models import Pair
from spectheory.replay import Replayed, Replays
from spectheory.verify import Greedy


class Mixture(ForcedDraft):
    """The draft (1 - l) q + l p: closer to the target by the share `l`, and by nothing at depths above 0."""

    def __init__(self, pair: Pair, share: float, *, by_depth: bool = False) -> None:
        self.inner, self.share, self.by_depth = PairDraft(pair), share, by_depth
        self.name, self.weights = f"mixture of {share}", f"{self.inner.weights}-{share}-{by_depth}"
        self.vocab_size, self.context = pair.vocab_size, pair.context

    def logits(self, batch: ForcedBatch) -> Tensor:
        q, p = (torch.softmax(one.double(), -1) for one in (self.inner.logits(batch), batch.target_logits))
        mixed = ((1 - self.share) * q + self.share * p).log()
        return torch.cat([mixed, q.log()]) if self.by_depth else mixed


def replayed(texts: HeldOutTexts, pair: Pair, policy: StaticTree) -> Replayed:
    """What `Replays` gives for the draft of a pair on these texts."""
    if texts.sampling.greedy:
        ranks = [forced_ranks(pair, *one) for one in zip(texts.prompts, texts.texts, strict=True)]
        return Replays([st.GreedyText(one) for one in ranks]).replay(policy.shape, Greedy())
    forced = forced_texts(pair, texts.prompts, texts.texts, texts.sampling)
    return Replays(forced).replay(policy.shape, policy.verifier, policy.rule)


def forced_ranks(pair: Pair, prompt: list[int], text: list[int]) -> np.ndarray:
    """Ranks of the tokens of a text in the draft, by a slow rendering: one forward for each position."""
    found = []
    for position, token in enumerate(text):
        with torch.inference_mode():
            logits = pair.draft(torch.tensor([prompt + text[:position]])).logits[0, -1].float()
        found.append(int((logits > logits[token]).sum()))
    return np.array(found)
