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


class TwoTierTable:
    """Probable successors of the last two tokens if these have occurred together, else of the last token.

    The table is on the host: one transfer of (n, k) rows per harvest is cheaper than waiting for the device at each
    level of a tree.

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

    def successors(self, *context: int) -> Successors:
        """Probable successors of the tokens `context`, else of its last token; [] if none is stored."""
        found = self._rows.get(context) or self._rows.get(context[-1:])
        if not found:
            return []
        return [(int(token), chance) for token, chance in zip(*found, strict=True) if chance >= self.min_score]
