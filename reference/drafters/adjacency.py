"""Adjacency tables: the most probable successors of a token, collected from every row of the target's logits.

A target forward returns logits for rejected nodes and for the prompt, too. Each row holds what the target expects after
a token in some context: a guess for the next time that the token occurs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Successors = list[tuple[int, float]]
"""(token, probability), most probable first."""


def harvest_order(nodes: int, path: Sequence[int], rejected: bool) -> list[int]:
    """Rows of a verified draft in the order in which to harvest them: the root and the accepted nodes are last.

    Of two rows for one token the later one is kept, and an accepted context is better than a rejected one.
    """
    accepted = [0, *path]
    known = set(accepted)
    return [node for node in range(nodes) if rejected and node not in known] + accepted


class DenseTable:
    """Successors by the last token, as a tensor (V, k) on the model's device: the host never waits for it.

    A token that was never harvested has the successors 0..k-1, so that a row is always k distinct tokens and a static
    tree can be filled without checking them.
    """

    def __init__(self, vocab_size: int, k: int, device: torch.device) -> None:
        self.tokens = torch.arange(k, device=device).repeat(vocab_size, 1)
        self._written = torch.full((vocab_size,), -1, device=device)
        self._clock = 0

    def harvest(self, tokens: Tensor, logits: Tensor) -> None:
        """Store the most probable successors of tokens (n,) by their logits (n, V); the last of equal tokens counts.

        Equal tokens all write the row of the last of them, since torch does not define the order of such writes.
        """
        best = logits.topk(self.tokens.shape[1]).indices
        times = torch.arange(self._clock, self._clock + len(tokens), device=tokens.device)
        self._written.scatter_reduce_(0, tokens, times, "amax")
        self.tokens[tokens] = best[self._written[tokens] - self._clock]
        self._clock += len(tokens)


class TwoTierTable:
    """Probable successors by the last two tokens where these were harvested, else by the last one.

    The table is on the host. A tree whose shape depends on the table is grown there, and one transfer of (n, k) rows
    per harvest is cheaper than waiting for the device at each level of the tree. Goose's authors keep their first tier
    as dense tensors on the device, which suits a static tree: see `DenseTable`.

    Args:
        k: largest number of successors in a row.
        min_score: successors of lower probability (by the softmax of the raw logits) are left out.
        bigram: whether there is a table by the last two tokens.

    Source: Goose, Section 4.1 and Appendix C.1.
    """

    def __init__(self, k: int = 10, min_score: float = 0.01, *, bigram: bool = True) -> None:
        self.k = k
        self.min_score = min_score
        self.bigram = bigram
        self._rows: dict[tuple[int, ...], tuple[list[float], list[float]]] = {}

    def harvest(self, contexts: Mapping[int, tuple[int, ...]], logits: Tensor) -> None:
        """Store the successors of contexts, (token before, token) or (token,), by their rows of logits (n, V).

        Of several rows for one context the last one in the order of `contexts` is kept.
        """
        best = logits.topk(min(self.k, logits.shape[1]))
        scores = (best.values - logits.logsumexp(1, keepdim=True)).exp()
        tokens, probabilities = torch.stack([best.indices.double(), scores.double()]).tolist()
        for row, context in contexts.items():
            self._rows[context[-1:]] = found = tokens[row], probabilities[row]
            if self.bigram:
                self._rows[context] = found

    def successors(self, before: int, token: int) -> Successors:
        """Probable successors of `before, token`; [] where neither table has any."""
        found = self._rows.get((before, token)) if self.bigram else None
        found = found or self._rows.get((token,))
        if not found:
            return []
        return [(int(token), chance) for token, chance in zip(*found, strict=True) if chance >= self.min_score]
