"""The optimal node solver: what it accepts, and what that is worth in a tree."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.delayed_trees import solver_printed as printed
from proofs_check.plays import ZERO
from proofs_check.small_drafts import Law


def cut(p: Law, q: Law, k: int, tokens: printed.Tokens) -> Fraction:
    """No OTLP solver accepts more than p(H) + 1 - q(H)^k, H being `tokens`."""
    return sum((p[t] for t in tokens), ZERO) + 1 - sum((q[t] for t in tokens), ZERO) ** k
