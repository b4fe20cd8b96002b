"""`TargetText`, a text of the target with both models' distributions at its positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spectheory.core.arrays import SUM_TOLERANCE
from spectheory.core.errors import InputError


@dataclass(frozen=True, eq=False)
class TargetText:
    """A text of n tokens that the target generated, and what both models predict at each of its positions.

    Attributes:
        tokens: (n,) the text, without its prompt.
        p: (n, V) the target's distribution of the token at each position, given the prompt and the tokens before it.
        q: (n, V) the draft's distribution there. (D, n, V) for a draft whose distribution depends on how deep in the
            cycle it is: q[d] holds for children of a node at depth d, the last one for deeper nodes too.

    Raises:
        InputError: the shapes disagree, a row is not a distribution, or the target gives a token of the text
            probability 0.
    """

    tokens: np.ndarray
    p: np.ndarray
    q: np.ndarray

    def __post_init__(self) -> None:
        tokens, p, q = np.asarray(self.tokens), np.asarray(self.p), np.asarray(self.q)
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise InputError(f"tokens must be a row of whole numbers, got {tokens.dtype} of shape {tokens.shape}")
        if p.ndim != 2 or len(p) != len(tokens) or q.shape[-2:] != p.shape or q.ndim not in (2, 3):
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
        impossible = ~(p[np.arange(len(tokens)), tokens] > 0)
        if impossible.any():
            position = int(impossible.argmax())
            raise InputError(
                f"tokens[{position}] is {tokens[position]}, which p gives probability 0: the target cannot have "
                "generated this text at this temperature; take p of the model and the sampling that generated it"
            )
        for name, value in (("tokens", tokens), ("p", p), ("q", q)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.tokens)

    def draft_rows(self, depth: int) -> np.ndarray:
        """(n, V) the draft's distribution at each position, where it drafts children of a node at `depth`."""
        return self.q[min(depth, len(self.q) - 1)]

    def at_tokens(self, rows: np.ndarray) -> np.ndarray:
        """(n,) the entries of (n, V) rows at the tokens of the text."""
        return rows[np.arange(len(self)), self.tokens]


def _check_rows(name: str, rows: np.ndarray) -> None:
    """Refuse (n, V) rows that are not distributions."""
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
