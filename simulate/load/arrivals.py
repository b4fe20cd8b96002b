"""Synthetic loads: Poisson arrivals, bursts, rates that follow a course, and closed loops.

Arrivals, prompts, answers and classes have random streams of their own, so with the same seed a change of one leaves
the others as they are. With the same seed a higher rate has the same arrivals, closer together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Any, TypedDict, Unpack

import numpy as np

from simulate.load.requests import LONGEST, Requests, check_positive
from spectheory.core.checks import check_array, check_whole
from spectheory.core.errors import InputError

PROMPT, OUTPUT = 1024, 256
"""Tokens of each prompt and of each answer, if nothing else is given."""
MOST_REQUESTS = 10_000_000
"""Most requests of a synthetic load: a simulation of them takes gigabytes of memory."""
MOST_RATE = 1e12
"""Most requests a second."""
LARGEST_CV = 100.0
"""Beyond it, nearly all numbers of tokens and times between arrivals are 0."""
ARRIVALS, PROMPTS, OUTPUTS, _, KINDS = range(5)
"""The numbers of the random streams."""
FORMS = "a whole number, lognormal:MEAN:CV, lognormal:MEAN:CV:MOST, geometric:MEAN or geometric:MEAN:MOST"
"""The texts that `parse_lengths` reads."""


@dataclass(frozen=True)
class Lognormal:
    """Lengths whose logarithm is normal, rounded to whole numbers of at least 1.

    Attributes:
        mean: mean number of tokens, before rounding.
        cv: coefficient of variation, standard deviation / mean, before rounding.
        most: longer draws are cut to this number, as by an engine's max_tokens.
    """

    mean: float
    cv: float
    most: int = LONGEST

    def __post_init__(self) -> None:
        _check_mean(self.mean, self.most)
        check_positive("cv", self.cv, most=LARGEST_CV)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count,) int64 independent lengths."""
        spread = sqrt(log(1 + self.cv**2))
        draws = self.mean * np.exp(spread * rng.standard_normal(count) - spread**2 / 2)
        return np.clip(np.rint(draws), 1, self.most).astype(np.int64)


@dataclass(frozen=True)
class Geometric:
    """Lengths of answers that end after each token with probability 1 / `mean`; see `Lognormal`."""

    mean: float
    most: int = LONGEST

    def __post_init__(self) -> None:
        _check_mean(self.mean, self.most)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count,) int64 independent lengths."""
        return np.minimum(rng.geometric(1 / self.mean, count), self.most).astype(np.int64)


Lengths = int | Lognormal | Geometric
"""Numbers of tokens: all equal, or drawn from a distribution."""


class Contents(TypedDict, total=False):
    """What requests contain.

    Attributes:
        prompt: tokens of each prompt, or their distribution; 1024 by default.
        output: tokens of each answer, or their distribution; 256 by default.
        shares: the probability of each class of acceptance; by default all requests are of class 0.
    """

    prompt: Lengths
    output: Lengths
    shares: Sequence[float]


def poisson(rate: float, count: int, *, seed: int = 0, **contents: Unpack[Contents]) -> Requests:
    """Requests that arrive independently of each other, at a constant rate.

    Args:
        rate: mean number of requests that arrive in a second.
        count: number of requests.
        seed: seed of all random numbers.
        contents: lengths and classes of the requests, see `Contents`.

    Raises:
        InputError: an argument is out of range.
    """
    return bursts(rate, count, cv=1.0, seed=seed, **contents)


def bursts(rate: float, count: int, *, cv: float, seed: int = 0, **contents: Unpack[Contents]) -> Requests:
    """Requests with independent gamma times between arrivals, of which a `cv` above 1 makes bursts.

    vLLM's benchmark has the same arrivals with `--burstiness` 1 / cv^2.

    Args:
        rate: mean number of requests that arrive in a second.
        count: number of requests.
        seed: seed of all random numbers.
        contents: see `Contents`.
        cv: coefficient of variation of the time between two arrivals, standard deviation / mean; its square is the
            squared coefficient of variation of queueing theory. 1 is a Poisson process.

    Raises:
        InputError: an argument is out of range.
    """
    check_positive("rate", rate, most=MOST_RATE)
    check_positive("cv", cv, most=LARGEST_CV)
    rng = _checked_rng(count, seed)
    gaps = rng.standard_exponential(count) if cv == 1 else rng.standard_gamma(cv**-2, count) * cv**2
    return _requests(np.cumsum(gaps) / rate, contents, seed)


def profile(
    rates: Sequence[float], seconds: Sequence[float], *, seed: int = 0, **contents: Unpack[Contents]
) -> Requests:
    """Poisson arrivals whose rate follows a given course, such as one burst: rates 8, 40, 8 for 60, 10, 120 seconds.

    The load ends after the last of the `seconds`, so the number of requests is random.

    Args:
        rates: mean numbers of requests that arrive in a second, one after the other; they may be 0, but not all.
        seconds: how long each rate holds.
        seed: seed of all random numbers.
        contents: see `Contents`.

    Raises:
        InputError: an argument is out of range, or no request arrives.
    """
    rate, stays = (check_array(name, given) for name, given in (("rates", rates), ("seconds", seconds)))
    if rate.ndim != 1 or rate.shape != stays.shape or {rate.dtype.kind, stays.dtype.kind} - set("iuf"):
        raise InputError(f"rates and seconds must be equally many numbers, got {rates!r:.60} and {seconds!r:.60}")
    expected = float(rate @ stays)
    if not (rate >= 0).all() or not (stays > 0).all() or not 0 < expected <= MOST_REQUESTS:
        raise InputError(
            f"rates must be at least 0, seconds above 0, and at most {MOST_REQUESTS:,} requests be expected, got "
            f"{expected:.3g} from {rate.tolist()} and {stays.tolist()}"
        )
    rng = _checked_rng(1, seed)
    work = np.cumsum(rng.standard_exponential(64))
    while work[-1] < expected:
        work = np.append(work, work[-1] + np.cumsum(rng.standard_exponential(len(work))))
    work = work[work < expected]
    if not work.size:
        raise InputError(f"rates and seconds let no request arrive with seed {seed}: raise them")
    ends, reached = np.append(0, np.cumsum(stays)), np.append(0, np.cumsum(rate * stays))
    part = np.searchsorted(reached, work, side="right") - 1
    share = (work - reached[part]) / (reached[part + 1] - reached[part])
    return _requests(ends[part] + share * (ends[part + 1] - ends[part]), contents, seed)


def closed(concurrency: int, count: int, *, seed: int = 0, **contents: Unpack[Contents]) -> Requests:
    """A closed loop: `concurrency` requests are open at a time, and the next one arrives when one completes.

    Args:
        concurrency: number of open requests.
        count: number of requests.
        seed: seed of all random numbers.
        contents: see `Contents`.

    Raises:
        InputError: an argument is out of range.
    """
    check_whole("concurrency", concurrency, 1)
    _checked_rng(count, seed)
    return _requests(np.zeros(count), contents, seed, concurrency)


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
            check_whole(name, int(kind), 1, most=LONGEST)
            return int(kind)
    except InputError as error:
        raise InputError(f"{name}={text}: {error}") from error
    except ValueError:
        pass
    raise InputError(f"{name} must be {FORMS}, got {text!r:.60}")


def _check_mean(mean: float, most: int) -> None:
    check_positive("mean", mean)
    check_whole("most", most, 1, most=LONGEST)
    if mean < 1:
        raise InputError(f"mean must be at least 1 token, got {mean}")


def _checked_rng(count: int, seed: int) -> np.random.Generator:
    check_whole("count", count, 1, ": simulate a part of the load", most=MOST_REQUESTS)
    check_whole("seed", seed, 0)
    return np.random.default_rng([seed, ARRIVALS])


def _requests(arrivals: np.ndarray, contents: Contents, seed: int, concurrency: int | None = None) -> Requests:
    """Requests at these times, with lengths and classes drawn from streams of their own."""
    count = len(arrivals)
    if unknown := set(contents) - set(Contents.__annotations__):
        raise InputError(f"{min(unknown)} must be one of {', '.join(Contents.__annotations__)}: check its name")
    prompts = _drawn("prompt", contents.get("prompt", PROMPT), [seed, PROMPTS], count)
    outputs = _drawn("output", contents.get("output", OUTPUT), [seed, OUTPUTS], count)
    shares = check_array("shares", contents.get("shares", [1.0]))
    if shares.ndim != 1 or shares.dtype.kind not in "iuf" or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise InputError(f"shares must be a probability for each class and sum to 1, got {shares!r:.80}")
    drawn = np.random.default_rng([seed, KINDS]).random(count)
    kinds = np.searchsorted(np.cumsum(shares)[:-1], drawn, side="right").astype(np.int64)
    return Requests(arrivals, prompts, outputs, kinds, concurrency)


def _drawn(name: str, lengths: Any, seed: list[int], count: int) -> np.ndarray:
    if isinstance(lengths, Lognormal | Geometric):
        return lengths.draw(np.random.default_rng(seed), count)
    check_whole(name, lengths, 1, ": or give a distribution such as Lognormal or Geometric", most=LONGEST)
    return np.full(count, lengths, np.int64)
