"""`TargetText`, a text with what both models predict at its positions, and `CycleChain`, its cycle boundaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Rational
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from spectheory.core.arrays import as_distributions
from spectheory.core.checks import check_array
from spectheory.core.errors import InputError
from spectheory.core.machine import compiled

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
        p, q = as_distributions("p", p), as_distributions("q", q)
        impossible = ~(p[np.arange(len(tokens)), tokens] >= LEAST)
        if impossible.any():
            position = int(impossible.argmax())
            raise InputError(
                f"tokens[{position}] is {tokens[position]}, which p gives probability "
                f"{float(p[position, tokens[position]]):.3g}: the target cannot have generated this text with this "
                "sampling; take p of the model and the sampling that generated it"
            )
        for name, value in (("tokens", tokens.astype(np.int64)), ("p", p), ("q", q if q.ndim == 3 else q[None])):
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
    """`value` as an array of numbers or of Fractions."""
    rows = check_array(name, value)
    if rows.dtype.kind in "fiu":
        return rows
    if rows.dtype != object or not all(isinstance(one, Rational) and not isinstance(one, bool) for one in rows.flat):
        raise InputError(f"{name} must be an array of float64 or of Fractions, got {rows.dtype} of shape {rows.shape}")
    return rows


@dataclass(frozen=True, eq=False)
class CycleChain:
    """Where the cycles of a lossless decoder start and end, given the text that it emitted.

    **Theorem.** A cycle after context c emits a string s = a_1..a_m y, m kept drafts and one token more, with
    probability R_c(s) over drafts and coins; the target gives it p(s|c). Let W_c(s) = R_c(s) / p(s|c). Lossless means
    that for every text t sum_m R_c(t_1..t_(m+1)) p(t_(m+2).. | c t_1..t_(m+1)) = p(t|c), that is sum_m
    W_c(t_1..t_(m+1)) = 1. Given the text, the boundaries are a Markov chain: after a boundary before position i the
    next one is before position i + m + 1 with probability W(t_i..t_(i+m)).

    *Proof.* P(text, boundaries) is the product of R over the segments, which is p(text) times the product of W over
    the segments; the text alone has probability p(text).

    So any text of the target serves, however it was generated. Let A_m be the sum of W over m or more kept drafts. Then
    W = A_m - A_(m+1) is the probability that a cycle keeps exactly m. The expected number of cycles is a sum of
    products of W at distinct positions, so it stays unbiased if W is replaced by unbiased estimates that are
    independent from position to position.

    Attributes:
        kept: chance that a cycle that starts at each position keeps at least 0..L drafted tokens, A; the
            first column is 1. What lies after the end of the text is not read.
        first: where the first cycle starts; 1 by default, since the target emits the first token with the prompt.

    Raises:
        InputError: `kept` is not a table of at least one column, or `first` is not a position.
    """

    kept: Shaped[np.ndarray, "n lengths"]
    first: int = 1

    def __post_init__(self) -> None:
        if self.kept.ndim != 2 or self.kept.shape[1] < 1:
            raise InputError(f"kept must have shape (positions, L + 1), got {self.kept.shape}")
        if self.first < 0:
            raise InputError(f"first must be a position of the text, at least 0, got {self.first}")

    @cached_property
    def ends(self) -> Shaped[np.ndarray, "n lengths"]:
        """Chance that a cycle that starts at each position keeps exactly 0..L drafted tokens, W."""
        ends = self.kept * 1
        ends[:, :-1] -= self.kept[:, 1:]
        return ends

    @cached_property
    def expected_cycles(self) -> Shaped[np.ndarray, " boundaries"]:
        """Expected number of cycles from a boundary before each position to the end of the text."""
        return self._run(_expected_cycles)

    @cached_property
    def cycle_variance(self) -> Shaped[np.ndarray, " boundaries"]:
        """Variance of that number, given the text. Exact where `kept` is exact, not where it is sampled."""
        return self._run(_cycle_variance, self.expected_cycles)

    @cached_property
    def starts(self) -> Shaped[np.ndarray, " n"]:
        """Probability that a cycle starts at each position: what every other statistic is averaged with."""
        return self._run(_starts, self.first)

    @property
    def cycles(self) -> float:
        """Expected number of cycles of the text, the last one counted whole although the text may end within it."""
        return self.expected_cycles[min(self.first, len(self.kept))]

    def _run(self, body: Callable[..., np.ndarray], *arguments: object) -> np.ndarray:
        """`body` on the chances to end, compiled unless they are Fractions."""
        ends = self.ends
        return body(ends, *arguments) if ends.dtype == object else compiled(body)(ends, *arguments)


def _expected_cycles(ends: np.ndarray) -> np.ndarray:
    """C(i) = 1 + sum_m W(i, m) C(i + m + 1), backwards; C = 0 from the end of the text on."""
    n, width = ends.shape
    expected = np.zeros(n + 1, ends.dtype)
    for position in range(n - 1, -1, -1):
        total = expected[n] + 1
        for kept in range(min(width, n - position)):
            total += ends[position, kept] * expected[position + kept + 1]
        expected[position] = total
    return expected


def _cycle_variance(ends: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The variance of the number of cycles, by the second moment of the steps: backwards as `_expected_cycles`."""
    n, width = ends.shape
    variance = expected * 0
    for position in range(n - 1, -1, -1):
        total = expected[n] * 0
        inside = total
        for kept in range(min(width, n - position)):
            after = position + kept + 1
            off = 1 + expected[after] - expected[position]
            total += ends[position, kept] * (variance[after] + off * off)
            inside += ends[position, kept]
        off = 1 - expected[position]
        variance[position] = total + (1 - inside) * off * off
    return variance


def _starts(ends: np.ndarray, first: int) -> np.ndarray:
    """s(first) = 1, s(j) = sum of s(i) W(i, j - i - 1), forwards."""
    n, width = ends.shape
    starts = ends[:, 0] * 0
    if first < n:
        starts[first] += 1
    for position in range(first, n):
        for kept in range(min(width, n - position - 1)):
            starts[position + kept + 1] += starts[position] * ends[position, kept]
    return starts
