"""A slow rendering of draft heads, without a cache, and drafts along random texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference.candidates import largest
from reference.drafters import Drafter
from reference.heads import Head, HeadConfig
from reference.host_arrays import to_host
from reference.models import Pair
from reference.sampling import Sampling
from spectheory import Draft
from tests.reference.checked import Checked
from tests.reference.tiny_heads import random_head, random_target

PROMPTS = ([7], [3, 3, 20, 31], list(range(5, 25)))


@cache
def target() -> Any:
    return random_target()


def headed(config: HeadConfig) -> Pair:
    """A random target of four layers with a random head, in float64. The tokenizer is never used."""
    if config.kind == "eagle3" and config.layers is None:
        config = replace(config, layers=(3, 0, 2))
    head = random_head(config, dtype=torch.float64).attach(target())
    tokenizer: Any = None
    return Pair(target(), head, tokenizer, ("the target", "the head"))


@dataclass
class SlowHead:
    """A head without a cache: each path of drafted tokens is computed anew from the whole text.

    It uses the modules' `fuse`, `forward` and `logits` alone: there is no cache and no tree mask, and no row of the
    head is used twice. The target reads the text alone.

    Attributes:
        pair: target and head.
        text: tokens of the text, the root last.
        room: maximum depth of a path.
    """

    pair: Pair
    text: list[int]
    room: int = 100
    trusted: bool = False

    @property
    def head(self) -> Head:
        assert isinstance(self.pair.draft, Head)
        return self.pair.draft

    @cached_property
    def features(self) -> Tensor:
        """Features (1, n, hidden) of the tokens of the text."""
        states = self.pair.target(torch.tensor([self.text]), output_hidden_states=True).hidden_states
        return self.head.fuse(torch.cat([states[tap] for tap in self.head.taps], -1))

    @torch.inference_mode()
    def logits(self, path: Sequence[int]) -> Tensor:
        """Logits (V,) of the token after the text and `path`."""
        tokens, features = self.text[1:], self.features[:, :-1]
        for token in path:
            outputs = self.head(torch.tensor([tokens]), features)
            tokens, features = [*tokens, token], torch.cat([features, outputs[:, -1:]], 1)
        outputs = self.head(torch.tensor([tokens]), features)[0, -1]
        drafted = self.head.logits(outputs)
        if self.head.token_ids is None:
            return drafted
        logits = torch.full((self.pair.vocab_size,), -torch.inf, dtype=drafted.dtype)
        logits[self.head.token_ids] = drafted
        return logits

    def expand(self, paths: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        q = torch.stack([self.logits(path) for path in paths]).softmax(-1)
        q[[len(path) >= self.room for path in paths]] = 0
        tokens, probabilities = largest(q, 12)
        return to_host(tokens), to_host(probabilities)


def paths_of(draft: Draft) -> list[list[int]]:
    """The drafted tokens from the root to each node, the root left out."""
    found: list[list[int]] = [[]]
    tokens = [int(token) for token in draft.tokens]
    for node, parent in enumerate(draft.tree.parent.tolist()[1:], start=1):
        found.append([*found[parent], tokens[node]])
    return found


def accepting(pair: Pair, drafter: Drafter, prompt: list[int], count: int) -> Iterator[tuple[list[int], Draft]]:
    """Greedy drafts after texts that take random paths of the drafts, so that long paths are accepted as well.

    The hidden states come from forwards of the target over the whole text.
    """
    rng, text = np.random.default_rng(0), list(prompt)
    drafting = Checked(drafter).start(pair, Sampling())

    def states(count: int) -> Tensor:
        found = pair.target(torch.tensor([text]), output_hidden_states=True).hidden_states
        return torch.cat([found[tap][0, -count:] for tap in drafting.taps], -1)

    with torch.inference_mode():
        drafting.observe(states(len(prompt)))
        drafting.read(prompt, torch.empty(0))
        text.append(int(rng.integers(pair.vocab_size)))
        drafting.commit([], text[-1:])
        for _ in range(count):
            draft = drafting.grow(100, None)
            yield text, draft
            path: list[int] = []
            while rng.random() < 0.8 and (children := draft.draws[path[-1] if path else 0]):
                path.append(int(rng.choice(children)))
            text += [int(draft.tokens[node]) for node in path]
            drafting.observe(states(len(path) + 1))
            text.append(int(rng.integers(pair.vocab_size)))
            drafting.commit(path, text[-len(path) - 1 :], torch.empty(0))
