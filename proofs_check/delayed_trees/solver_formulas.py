"""Algorithms 6 to 9 and 11 to 14 as the paper prints them: acceptance rates and branching probabilities.

`rho` is used where the paper has the root: the formulas hold for every factor of Algorithm 3, lossless or not.
"""

from __future__ import annotations

from fractions import Fraction

from proofs_check.delayed_trees.solver_printed import KSeq, smaller
from proofs_check.delayed_trees.walks import excess, normalised
from proofs_check.plays import ZERO
from proofs_check.small_drafts import Law


def spectr_acceptance(p: Law, q: Law, k: int, rho: Fraction) -> Fraction:
    """Algorithm 8."""
    beta = sum(smaller(p, q, rho), ZERO)
    p_acc = 1 - (1 - beta) ** k
    p_res = normalised(excess(p, KSeq(rho).placed(p, q, k)))
    r = [over / (1 - beta) if beta < 1 else ZERO for over in excess(q, smaller(p, q, rho))]
    return p_acc + (1 - p_acc) * sum((a * (1 - (1 - b) ** k) for a, b in zip(p_res, r, strict=True)), ZERO)
