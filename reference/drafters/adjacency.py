"""Adjacency tables: the most probable successors of a token, harvested from every row of logits that the target gave.

The logits that verify a draft are there for rejected nodes as well, and for the prompt. Each says what the target
expects behind a token in some context, and is a guess for the next time that the token stands there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Successors = list[tuple[int, float]]
"""(token, probability), most probable first."""


def harvest_order(nodes: int, path: Sequence[int], rejected: bool) -> list[int]:
    """Rows of a verified draft in the order in which to harvest them: the root and the accepted nodes come last.

    Where two rows stand for one token the later one is kept, and an accepted context is better than a rejected one.
    """
    accepted = [0, *path]
    known = set(accepted)
    return [node for node in range(nodes) if rejected and node not in known] + accepted


class DenseTable:
    """Successors by the last token, as a tensor (V, k) on the device of the model: no harvest and no read waits for it.

    A token that was never harvested has the successors 0..k-1, a guess as good as any, so that a row is always k
    distinct tokens and a static tree can be filled without a look at them.
    """

    def __init__(self, vocab_size: int, k: int, device: torch.device) -> None:
        self.tokens = torch.arange(k, device=device).repeat(vocab_size, 1)
        self._written = torch.full((vocab_size,), -1, device=device)
        self._clock = 0

    def harvest(self, tokens: Tensor, logits: Tensor) -> None:
        """Put down what tokens (n,) are followed by, as their logits (n, V) say; of equal tokens the last one is kept.

        Equal tokens all write the row of the last of them, since the order of writes to one place is not defined.
        """
        best = logits.topk(self.tokens.shape[1]).indices
        times = torch.arange(self._clock, self._clock + len(tokens), device=tokens.device)
        self._written.scatter_reduce_(0, tokens, times, "amax")
        self.tokens[tokens] = best[self._written[tokens] - self._clock]
        self._clock += len(tokens)


class TwoTierTable:
    """Successors by the last two tokens where these were harvested, else by the last one; only probable ones.

    It lies on the host. A tree whose shape depends on what the table says is grown there, and one transfer of (n, k)
    rows a harvest is cheaper than one wait for the device a level of the tree. Goose keeps its first tier as dense
    tensors on the device, which a static tree can use: see `DenseTable`.

    Args:
        k: most successors of a row.
        min_score: successors of lower probability (the softmax of the raw logits) are left out.
        bigram: whether there is a second tier.

    Source: Goose, Section 4.1 and Appendix C.1.
    """

    def __init__(self, k: int = 10, min_score: float = 0.01, *, bigram: bool = True) -> None:
        self.k = k
        self.min_score = min_score
        self.bigram = bigram
        self._rows: dict[tuple[int, ...], tuple[list[float], list[float]]] = {}

    def harvest(self, contexts: Mapping[int, tuple[int, ...]], logits: Tensor) -> None:
        """Put down what follows contexts, (token before, token) or (token,), by their rows of logits (n, V).

        Of rows for one context the last one in the order of `contexts` is kept.
        """
        best = logits.topk(min(self.k, logits.shape[1]))
        scores = (best.values - logits.logsumexp(1, keepdim=True)).exp()
        tokens, probabilities = torch.stack([best.indices.double(), scores.double()]).tolist()
        for row, context in contexts.items():
            self._rows[context[-1:]] = found = tokens[row], probabilities[row]
            if self.bigram:
                self._rows[context] = found

    def successors(self, before: int, token: int) -> Successors:
        """What may follow `before, token`; [] where neither tier knows."""
        found = self._rows.get((before, token)) if self.bigram else None
        found = found or self._rows.get((token,))
        if not found:
            return []
        return [(int(token), chance) for token, chance in zip(*found, strict=True) if chance >= self.min_score]
