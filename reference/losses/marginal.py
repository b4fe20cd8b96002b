"""The loss of a parallel head: cross-entropy of the marginal at each depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from reference.losses.chain import ChainLoss, Rows
from reference.losses.kl import cross_entropy


@dataclass(frozen=True)
class Marginal(ChainLoss):
    """The loss of a parallel head: sum over depths i of decay^i times the cross-entropy of its marginal q_i.

    Pass i is depth i + 1 of the draft; `HeadStep` returns a parallel head's marginals as passes. q_i has not read the
    tokens between the root and its own token. Let m_i be the target's marginal: the distribution of the token i + 1
    after the root, averaged over the target's continuations x_1, ..., x_i of the root.

    What it measures: row r of pass i is compared with p(. | text up to r + i). On texts that the target sampled, the
    mean of these p over the continuations of a root is m_i, so the expected loss of the row is the cross-entropy of m_i
    and q_i. The comparison with the whole distribution p has the same mean as the source's, with the token that
    follows, and less noise.

    What it cannot reach: 0. Depth i is at least the entropy of m_i, and equals it exactly where q_i = m_i: the mean
    entropy of p at this depth plus what the tokens x_1, ..., x_i tell about the next one (their mutual information). A
    KL divergence to p would be at least that mutual information, not 0, so the plain cross-entropy is taken.

    What the source leaves open: which depths count how much; it names lambda_k "the k-th power of a constant like 0.8".
    Whether the draft learns from a corpus or from the target's own texts: on other texts than those that the target
    samples, the minimum is the mean of p over their continuations, not m_i. At temperature 0 the continuation is a
    single one, and the minimum is p along it.

    What is done here: the frame of the losses that follow the text, so a loss of several depths is masked as an
    unrolled one. With the same passes its value is that of `Eagle3`; only what the passes have read differs.

    Attributes:
        passes: number of depths, at most those of the head.
        decay: weight of a depth relative to the one before.

    Source: Medusa (arXiv 2401.10774), Section 2.2.1, whose loss takes the token of the text in place of p.
    """

    name: ClassVar[str] = "marginal"
    head = "parallel"
    passes: int = 4

    def of_rows(self, rows: Rows) -> Tensor:
        return cross_entropy(rows.logits, rows.target)
