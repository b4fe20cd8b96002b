"""`TargetText`, a text of the target with both models' distributions at its positions."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Rational
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from spectheory.core.arrays import SUM_TOLERANCE
from spectheory.core.checks import check_array
from spectheory.core.errors import InputError

LEAST = 1e-300
"""The lowest probability that the target may give to a token of its text, so that ratios to it are finite numbers."""


@dataclass(frozen=True, eq=False)
class TargetText:
    """A text of n tokens that the target generated, and what both models predict at each of its positions.

    Attributes:
        tokens: the text, without its prompt.
        p: the target's distribution of the token at each position, given the prompt and the tokens before it.
        q: the draft's distribution there: q[d] holds for children of a node at depth d, the last one for deeper nodes
            too. Rows (n, V) are given for a draft whose distribution does not depend on how deep in the cycle it is.

    p and q are float64, or arrays of `Fraction`.

    Raises:
        InputError: the shapes or the number types are others, a row is not a distribution, or the target gives a token
            of the text a probability below `LEAST`.
    """

    tokens: Int64[np.ndarray, " n"]
    p: Shaped[np.ndarray, "n V"]
    q: Shaped[np.ndarray, "*depths n V"]

    def __post_init__(self) -> None:
        tokens, p, q = check_array("tokens", self.tokens), _numbers("p", self.p), _numbers("q", self.q)
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise InputError(f"tokens must be a row of whole numbers, got {tokens.dtype} of shape {tokens.shape}")
        fits = p.ndim == 2 and len(p) == len(tokens) and p.shape[1] and q.shape[-2:] == p.shape
        if not fits or q.ndim not in (2, 3) or not len(q) >= (q.ndim == 3):
            raise InputError(
                f"p must have shape ({len(tokens)}, V) for {len(tokens)} tokens and q that shape or (depths, "
                f"{len(tokens)}, V), got {p.shape} and {q.shape}"
            )
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < p.shape[1]:
            wrong = tokens[(tokens < 0) | (tokens >= p.shape[1])][0]
            raise InputError(f"tokens must be between 0 and {p.shape[1] - 1}, the last of the vocabulary, got {wrong}")
        q = q if q.ndim == 3 else q[None]
        for name, rows in (("p", p), *((f"q[{depth}]" if len(q) > 1 else "q", rows) for depth, rows in enumerate(q))):
            _check_rows(name, rows)
        impossible = ~(p[np.arange(len(tokens)), tokens] >= LEAST)
        if impossible.any():
            position = int(impossible.argmax())
            raise InputError(
                f"tokens[{position}] is {tokens[position]}, which p gives probability "
                f"{float(p[position, tokens[position]]):.3g}: the target cannot have generated this text with this "
                "sampling; take p of the model and the sampling that generated it"
            )
        for name, value in (("tokens", tokens.astype(np.int64)), ("p", p), ("q", q)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.tokens)

    def draft_rows(self, depth: int) -> Shaped[np.ndarray, "n V"]:
        """The draft's distribution at each position, where it drafts children of a node at `depth`."""
        return self.q[min(depth, len(self.q) - 1)]

    def at_tokens(self, rows: Shaped[np.ndarray, "n V"]) -> Shaped[np.ndarray, " n"]:
        """The entries of rows at the tokens of the text."""
        return rows[np.arange(len(self)), self.tokens]


def _numbers(name: str, value: Any) -> np.ndarray:
    """`value` as an array of float64 or of Fractions."""
    rows = check_array(name, value)
    if rows.dtype.kind in "fiu":
        return rows.astype(np.float64, copy=False)
    if rows.dtype != object or not all(isinstance(one, Rational) and not isinstance(one, bool) for one in rows.flat):
        raise InputError(f"{name} must be an array of float64 or of Fractions, got {rows.dtype} of shape {rows.shape}")
    return rows


def _check_rows(name: str, rows: Shaped[np.ndarray, "n V"]) -> None:
    """Refuse rows that are not distributions."""
    if not len(rows):
        return
    lowest: Any = rows.min(1)
    off = abs(rows.sum(1) - 1)
    wrong = ~((lowest >= 0) & (off <= (0 if rows.dtype == object else SUM_TOLERANCE)))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{name}[{row}] must be a distribution: entries >= 0 that sum to 1, got a sum of "
            f"{float(rows[row].sum()):.6g} and a lowest entry of {float(lowest[row]):.6g}"
        )
