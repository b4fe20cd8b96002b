"""Synthetic loads: Poisson arrivals, bursts, rates that change, and closed loops.

Arrivals, prompts, answers and classes have random streams of their own, so with the same seed a change of one leaves
the others as they are. With the same seed a higher rate has the same arrivals, closer together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np

from simulate.load.lengths import Lengths, check_cv, check_positive, lengths_of
from simulate.load.requests import Requests
from spectheory.core.checks import check_array, check_whole
from spectheory.core.errors import InputError

PROMPT, OUTPUT = 1024, 256
"""Tokens of each prompt and of each answer, if nothing else is given."""
MOST_REQUESTS = 10_000_000
"""Most requests of a synthetic load: a simulation of them takes gigabytes of memory."""
MOST_RATE = 1e12
"""Most requests a second."""
ARRIVALS, PROMPTS, OUTPUTS, PAIRS, KINDS, STATES = range(6)
"""The numbers of the random streams."""


class Contents(TypedDict, total=False):
    """What requests contain.

    Attributes:
        prompt: tokens of each prompt, or their distribution; 1024 by default.
        output: tokens of each answer, or their distribution; 256 by default.
        like: draw prompt and answer together from these requests, in place of `prompt` and `output`.
        shares: the probability of each class of acceptance; by default all requests are of class 0.
    """

    prompt: int | Lengths
    output: int | Lengths
    like: Requests
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
    _check_rate(rate)
    _check(count, seed)
    gaps = _rng(seed, ARRIVALS).standard_exponential(count)
    return _requests(np.cumsum(gaps) / rate, contents, seed)


def bursts(rate: float, count: int, *, cv: float, seed: int = 0, **contents: Unpack[Contents]) -> Requests:
    """Requests with independent gamma times between arrivals, of which a `cv` above 1 makes bursts.

    vLLM's benchmark has the same arrivals with `--burstiness` 1 / cv^2.

    Args:
        rate: mean number of requests that arrive in a second.
        count: number of requests.
        cv: coefficient of variation of the time between two arrivals, standard deviation / mean; its square is the
            squared coefficient of variation of queueing theory. 1 is a Poisson process.
        seed: seed of all random numbers.
        contents: lengths and classes of the requests, see `Contents`.

    Raises:
        InputError: an argument is out of range.
    """
    _check_rate(rate)
    check_cv(cv)
    _check(count, seed)
    gaps = _rng(seed, ARRIVALS).standard_gamma(cv**-2, count) * cv**2
    return _requests(np.cumsum(gaps) / rate, contents, seed)


def modulated(
    rates: Sequence[float], seconds: Sequence[float], count: int, *, seed: int = 0, **contents: Unpack[Contents]
) -> Requests:
    """A Markov-modulated Poisson process: the rate stays at one of several values for exponential times.

    After each time the next rate follows in the order given, the first after the last. The first one is drawn by the
    share of time that it has in the long run, so the process is stationary.

    Args:
        rates: mean numbers of requests that arrive in a second; they may be 0, but not all.
        seconds: mean time for which each rate holds.
        count: number of requests.
        seed: seed of all random numbers.
        contents: lengths and classes of the requests, see `Contents`.

    Raises:
        InputError: an argument is out of range.
    """
    rate, mean = _rates(rates, seconds)
    _check(count, seed)
    if (changes := count * len(mean) / (rate @ mean)) > MOST_REQUESTS:
        raise InputError(
            f"seconds must let the rate change at most {MOST_REQUESTS:,} times, got {changes:.3g} expected changes: "
            "raise the rates or the seconds, or give fewer requests"
        )
    rng = _rng(seed, STATES)
    first = int(rng.choice(len(mean), p=mean / mean.sum()))
    work = np.cumsum(_rng(seed, ARRIVALS).standard_exponential(count))
    times, reached = [np.zeros(1)], [np.zeros(1)]
    while reached[-1][-1] <= work[-1]:
        states = (first + np.arange(len(mean) * 64)) % len(mean)
        stays = rng.standard_exponential(len(states)) * mean[states]
        times.append(times[-1][-1] + np.cumsum(stays))
        reached.append(reached[-1][-1] + np.cumsum(stays * rate[states]))
    arrivals = _when(work, np.concatenate(times), np.concatenate(reached))
    return _requests(arrivals, contents, seed)


def profile(
    rates: Sequence[float], seconds: Sequence[float], *, seed: int = 0, **contents: Unpack[Contents]
) -> Requests:
    """Poisson arrivals whose rate follows a given course, such as one burst: rates 8, 40, 8 for 60, 10, 120 seconds.

    The load ends after the last of the `seconds`, so the number of requests is random.

    Args:
        rates: mean numbers of requests that arrive in a second, one after the other; they may be 0, but not all.
        seconds: how long each rate holds.
        seed: seed of all random numbers.
        contents: lengths and classes of the requests, see `Contents`.

    Raises:
        InputError: an argument is out of range, or no request arrives.
    """
    rate, stays = _rates(rates, seconds)
    _check(1, seed)
    if (expected := float(rate @ stays)) > MOST_REQUESTS:
        raise InputError(
            f"rates and seconds must let at most {MOST_REQUESTS:,} requests arrive, got {expected:.3g} expected: lower "
            "them"
        )
    rng, reached = _rng(seed, ARRIVALS), np.append(0, np.cumsum(rate * stays))
    work = np.cumsum(rng.standard_exponential(64))
    while work[-1] < reached[-1]:
        work = np.append(work, work[-1] + np.cumsum(rng.standard_exponential(len(work))))
    work = work[work < reached[-1]]
    if not work.size:
        raise InputError(
            f"rates and seconds must let requests arrive, but with seed {seed} none of {reached[-1]:.3g} expected "
            "does: raise them"
        )
    arrivals = _when(work, np.append(0, np.cumsum(stays)), reached)
    return _requests(arrivals, contents, seed)


def closed(concurrency: int, count: int, *, seed: int = 0, **contents: Unpack[Contents]) -> Requests:
    """A closed loop: `concurrency` requests are open at a time, and the next one arrives when one completes.

    Args:
        concurrency: number of open requests.
        count: number of requests.
        seed: seed of all random numbers.
        contents: lengths and classes of the requests, see `Contents`.

    Raises:
        InputError: an argument is out of range.
    """
    check_whole("concurrency", concurrency, 1)
    _check(count, seed)
    return _requests(np.zeros(count), contents, seed, concurrency)


def _check(count: int, seed: int) -> None:
    check_whole("count", count, 1, ": simulate a part of the load", most=MOST_REQUESTS)
    check_whole("seed", seed, 0)


def _check_rate(rate: float) -> None:
    check_positive("rate", rate)
    if rate > MOST_RATE:
        raise InputError(f"rate must be at most {MOST_RATE:g} requests a second, got {rate:g}: lower it")


def _rng(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream])


def _rates(rates: Sequence[float], seconds: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Rates and times as arrays, after a check."""
    rate, stays = check_array("rates", rates), check_array("seconds", seconds)
    if rate.ndim != 1 or not rate.size or rate.shape != stays.shape or {rate.dtype.kind, stays.dtype.kind} - set("iuf"):
        raise InputError(
            f"rates and seconds must have the same number of entries, at least one, got {rates!r:.60} and "
            f"{seconds!r:.60}"
        )
    rate, stays = rate.astype(np.float64), stays.astype(np.float64)
    if not ((rate <= MOST_RATE) & (rate >= 0)).all() or not rate.any():
        raise InputError(f"rates must be from 0 to {MOST_RATE:g} a second and not all 0, got {rate.tolist()}")
    if not (np.isfinite(stays) & (stays > 0)).all():
        raise InputError(f"seconds must be finite and above 0, got {stays.tolist()}")
    return rate, stays


def _when(work: np.ndarray, times: np.ndarray, reached: np.ndarray) -> np.ndarray:
    """The times at which the expected number of arrivals, `reached` at `times`, is `work`."""
    segment = np.searchsorted(reached, work, side="right") - 1
    share = (work - reached[segment]) / (reached[segment + 1] - reached[segment])
    return times[segment] + share * (times[segment + 1] - times[segment])


def _requests(
    arrivals: np.ndarray,
    contents: Contents,
    seed: int,
    concurrency: int | None = None,
) -> Requests:
    """Requests at these times, with lengths and classes drawn from streams of their own."""
    count, like = len(arrivals), contents.get("like")
    if unknown := set(contents) - set(Contents.__annotations__):
        raise InputError(f"{min(unknown)} must be one of {', '.join(Contents.__annotations__)}: check its name")
    if like is None:
        prompts = lengths_of("prompt", contents.get("prompt", PROMPT)).draw(_rng(seed, PROMPTS), count)
        outputs = lengths_of("output", contents.get("output", OUTPUT)).draw(_rng(seed, OUTPUTS), count)
    elif "prompt" in contents or "output" in contents:
        raise InputError("like must be left out if prompt or output is given: like has the lengths of both")
    else:
        row = _rng(seed, PAIRS).integers(0, len(like), count)
        prompts, outputs = like.prompt_tokens[row], like.output_tokens[row]
    return Requests(arrivals, prompts, outputs, _classes(contents.get("shares"), seed, count), concurrency)


def _classes(shares: Sequence[float] | None, seed: int, count: int) -> np.ndarray:
    """(count,) class of each request."""
    if shares is None:
        return np.zeros(count, np.int64)
    given = check_array("shares", shares)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "iuf" or not (given >= 0).all():
        raise InputError(f"shares must be a probability for each class, got {shares!r:.80}")
    if abs(given.sum() - 1) > 1e-9:
        raise InputError(f"shares must sum to 1, got {given.sum():.6g}: divide each by the sum")
    return np.searchsorted(np.cumsum(given)[:-1], _rng(seed, KINDS).random(count), side="right").astype(np.int64)
