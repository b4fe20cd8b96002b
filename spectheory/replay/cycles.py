"""`CycleChain`, the Markov chain of cycle boundaries on one text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from jaxtyping import Shaped

from spectheory.core.compiling import compiler
from spectheory.core.errors import InputError


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

    @property
    def tokens(self) -> int:
        """Tokens of the text that cycles emit."""
        return max(0, len(self.kept) - self.first)

    def mean_accepted(self, position: int) -> float:
        """Expected number of drafted tokens that a cycle from `position` keeps, if the text does not end before."""
        return self.kept[position, 1:].sum()

    def _run(self, body: Callable[..., np.ndarray], *arguments: object) -> np.ndarray:
        """`body` on the chances to end, compiled unless they are Fractions."""
        ends = self.ends
        return body(ends, *arguments) if ends.dtype == object else compiled(body)(ends, *arguments)


@cache
def compiled(body: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """`body`, compiled once and kept on disk; Numba is imported here and not before."""
    return compiler(cache=True)(body)


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
