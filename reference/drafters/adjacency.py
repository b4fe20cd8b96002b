"""Adjacency tables: the most probable successors of a token, collected from every row of the target's logits.

A target forward also returns logits for rejected nodes and for the prompt. Each row predicts the token after some
token in some context, so it is a guess for the next time that this token occurs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Successors = list[tuple[int, float]]
"""(token, probability), most probable first."""


def harvest_order(nodes: int, path: Sequence[int]) -> list[int]:
    """The nodes of a draft in the order in which their logits are stored: rejected nodes, the root, the `path`.

    Of two rows for one token the later one is kept, and a row from accepted text is the better guess. `nodes` is the
    number of nodes of the draft, the root included.
    """
    accepted = [0, *path]
    return [node for node in range(nodes) if node not in accepted] + accepted


class DenseTable:
    """The k most probable successors of each token, a tensor (V, k) on the model's device; the host never waits for it.

    A token that has not occurred yet has the successors 0 to k - 1. So each row is k distinct tokens, and a static tree
    can be filled without a check.
    """

    def __init__(self, vocab_size: int, k: int, device: torch.device) -> None:
        self.tokens = torch.arange(k, device=device).repeat(vocab_size, 1)
        self._written = torch.full((vocab_size,), -1, device=device)
        self._clock = 0

    def harvest(self, tokens: Tensor, logits: Tensor) -> None:
        """Store the most probable successors of tokens (n,) from their logits (n, V).

        Where a token occurs several times, each write stores the row of its last occurrence, because torch does not
        define the order of writes to one place.
        """
        best = logits.topk(self.tokens.shape[1]).indices
        times = torch.arange(self._clock, self._clock + len(tokens), device=tokens.device)
        self._written.scatter_reduce_(0, tokens, times, "amax")
        self.tokens[tokens] = best[self._written[tokens] - self._clock]
        self._clock += len(tokens)


class TwoTierTable:
    """Probable successors of the last two tokens if these have occurred together, else of the last token.

    The table is on the host, because the shape of the tree depends on it: one transfer of (n, k) rows per harvest is
    cheaper than waiting for the device at each level. Goose's authors keep their first tier as dense tensors on the
    device, which suits a static tree: see `DenseTable`.

    Args:
        k: maximum number of successors that are stored for a context.
        min_score: minimum probability of a successor, by the softmax of the raw logits; others are left out.

    Source: Goose, Section 4.1 and Appendix C.1.
    """

    def __init__(self, k: int = 10, min_score: float = 0.01) -> None:
        self.k = k
        self.min_score = min_score
        self._rows: dict[tuple[int, ...], list[list[float]]] = {}

    def harvest(self, contexts: Sequence[tuple[int, ...]], logits: Tensor) -> None:
        """Store probable successors by rows of logits (n, V); `contexts` has the last two tokens, or one, of each row.

        Of several rows for one context the last one is kept.
        """
        best = logits.topk(min(self.k, logits.shape[1]))
        scores = (best.values - logits.logsumexp(1, keepdim=True)).exp()
        tokens, probabilities = torch.stack([best.indices.double(), scores.double()]).tolist()
        for context, *row in zip(contexts, tokens, probabilities, strict=True):
            self._rows[context[-1:]] = self._rows[context] = row

    def successors(self, before: int, token: int) -> Successors:
        """Probable successors of the tokens `before, token`, else of `token`; [] if none is stored."""
        found = self._rows.get((before, token)) or self._rows.get((token,))
        if not found:
            return []
        return [(int(token), chance) for token, chance in zip(*found, strict=True) if chance >= self.min_score]
