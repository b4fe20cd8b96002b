"""Distributions of the numbers of tokens of prompts and answers: lognormal, geometric, or those of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log, sqrt
from typing import Protocol

import numpy as np

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

FORMS = "a whole number, lognormal:MEAN:CV, lognormal:MEAN:CV:MOST, geometric:MEAN or geometric:MEAN:MOST"
"""The texts that `parse_lengths` reads."""
LONGEST = 2**31 - 1
"""Longer draws are cut to this number of tokens."""

SMALLEST_CV, LARGEST_CV = 1e-6, 100.0
"""Beyond these, numbers of tokens and times between arrivals are all equal, or nearly all 0."""


class Lengths(Protocol):
    """A distribution of numbers of tokens, each at least 1."""

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count,) int64 independent numbers of tokens."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Every length is `tokens`."""

    tokens: int

    def __post_init__(self) -> None:
        check_whole("tokens", self.tokens, 1, most=LONGEST)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count,) int64, `tokens` in each entry."""
        return np.full(count, self.tokens, np.int64)


@dataclass(frozen=True)
class Lognormal:
    """Lengths whose logarithm is normal, rounded to whole numbers of at least 1.

    Attributes:
        mean: mean number of tokens, before rounding.
        cv: coefficient of variation, standard deviation / mean, before rounding.
        most: longer draws are cut to this number, as by an engine's max_tokens; None cuts none.
    """

    mean: float
    cv: float
    most: int | None = None

    def __post_init__(self) -> None:
        check_mean(self.mean, self.most)
        check_cv(self.cv, ": give a whole number for lengths that are all equal")

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count,) int64 independent lengths."""
        spread = sqrt(log(1 + self.cv**2))
        draws = self.mean * np.exp(spread * rng.standard_normal(count) - spread**2 / 2)
        return np.clip(np.rint(draws), 1, self.most or LONGEST).astype(np.int64)


@dataclass(frozen=True)
class Geometric:
    """Lengths of answers that end after each token with probability 1 / `mean`.

    Attributes:
        mean: mean number of tokens, at least 1.
        most: longer draws are cut to this number, as by an engine's max_tokens; None cuts none.
    """

    mean: float
    most: int | None = None

    def __post_init__(self) -> None:
        check_mean(self.mean, self.most)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count,) int64 independent lengths."""
        return np.minimum(rng.geometric(1 / self.mean, count), self.most or LONGEST).astype(np.int64)


def check_positive(name: str, value: object, repair: str = "") -> None:
    """Refuse a value that is not a finite number above 0."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.number)
        or not value > 0
        or not isfinite(value)
    ):
        raise InputError(f"{name} must be a finite number above 0, got {value!r:.80}{repair}")


def check_cv(cv: object, repair: str = "") -> None:
    """Refuse a coefficient of variation that is not above 0 and at most `LARGEST_CV`."""
    check_positive("cv", cv, repair)
    if not SMALLEST_CV <= cv <= LARGEST_CV:  # pyrefly: ignore[unsupported-operation]
        raise InputError(f"cv must be from {SMALLEST_CV:g} to {LARGEST_CV:g}, got {cv:g}")


def check_mean(mean: float, most: int | None) -> None:
    """Refuse a mean below 1, and a maximum below 1."""
    check_positive("mean", mean)
    if mean < 1:
        raise InputError(f"mean must be at least 1 token, got {mean}")
    if most is not None:
        check_whole("most", most, 1, most=LONGEST)


def lengths_of(name: str, value: int | Lengths) -> Lengths:
    """`value` as a distribution; a whole number is the length of every request."""
    if isinstance(value, bool) or not (isinstance(value, int | np.integer) or hasattr(value, "draw")):
        raise InputError(
            f"{name} must be a number of tokens, or a distribution such as Lognormal or Geometric, got {value!r:.80}"
        )
    if not isinstance(value, int | np.integer):
        return value
    check_whole(name, value, 1, most=LONGEST)
    return Fixed(int(value))


def parse_lengths(name: str, text: str) -> Lengths:
    """The distribution that `text` describes, such as `512`, `lognormal:512:1.5` or `geometric:256:4096`.

    Raises:
        InputError: the text is none of `FORMS`, or a number in it is out of range. The message names the option `name`.
    """
    kind, *numbers = text.split(":")
    try:
        if kind == "lognormal" and 2 <= len(numbers) <= 3:
            return Lognormal(float(numbers[0]), float(numbers[1]), *map(int, numbers[2:]))
        if kind == "geometric" and 1 <= len(numbers) <= 2:
            return Geometric(float(numbers[0]), *map(int, numbers[1:]))
        if not numbers:
            return lengths_of(name, int(kind))
    except InputError as error:
        raise InputError(f"{name}={text}: {error}") from error
    except ValueError:
        pass
    raise InputError(f"{name} must be {FORMS}, got {text!r:.60}")
