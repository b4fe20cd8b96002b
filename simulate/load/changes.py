"""Loads made from other loads: at another rate, thinned, cut, mixed, or in a closed loop."""

from __future__ import annotations

import numpy as np

from simulate.load.lengths import check_positive
from simulate.load.requests import Requests
from spectheory.core.checks import check_probabilities, check_whole
from spectheory.core.errors import InputError


def at_rate(requests: Requests, rate: float) -> Requests:
    """The same requests with all times stretched, so that `rate` of them arrive in a second on average.

    Bursts get shorter with the gaps between them. `thinned` keeps the times.

    Raises:
        InputError: `rate` is not above 0, or the requests have no rate: they are a closed loop, or arrive at one time.
    """
    check_positive("rate", rate)
    if requests.rate is None:
        raise InputError("requests must arrive over time to have another rate, but they are a closed loop or one batch")
    return _with(requests, requests.arrival_seconds * (requests.rate / rate), slice(None))


def thinned(requests: Requests, share: float, *, seed: int = 0) -> Requests:
    """Each request with probability `share`, at its time, as a server receives that is one of 1 / `share`.

    With the same seed a higher share keeps the same requests, and others.

    Raises:
        InputError: `share` is not a probability, or no request is left.
    """
    check_probabilities(share=share)
    check_whole("seed", seed, 0)
    return _left(requests, np.random.default_rng([seed, 6]).random(len(requests)) < share, f"with share={share}")


def until(requests: Requests, seconds: float) -> Requests:
    """The requests that arrive before `seconds`.

    Raises:
        InputError: `seconds` is not above 0, the requests are a closed loop, or none is left.
    """
    check_positive("seconds", seconds)
    if requests.concurrency is not None:
        raise InputError("requests must not be a closed loop to end after a time: give fewer of them")
    return _left(requests, requests.arrival_seconds < seconds, f"before seconds={seconds:g}")


def mixed(*loads: Requests) -> Requests:
    """The requests of all loads, in the order of their arrival. Classes of acceptance keep their numbers.

    Raises:
        InputError: there is no load, or one of them is a closed loop.
    """
    if not loads or any(one.concurrency is not None for one in loads):
        raise InputError("loads must hold at least one load and no closed loop: give loads with times of arrival")
    times = np.concatenate([one.arrival_seconds for one in loads])
    order = np.argsort(times, kind="stable")
    prompts, outputs, kinds = (
        np.concatenate([getattr(one, name) for one in loads])[order]
        for name in ("prompt_tokens", "output_tokens", "kinds")
    )
    return Requests(times[order], prompts, outputs, kinds)


def as_closed(requests: Requests, concurrency: int) -> Requests:
    """The same requests in a closed loop, without their times."""
    return Requests.closed(concurrency, requests.prompt_tokens, requests.output_tokens, requests.kinds)


def _left(requests: Requests, keep: np.ndarray, why: str) -> Requests:
    if not keep.any():
        raise InputError(f"none of {len(requests):,} requests is left {why}: raise it")
    return _with(requests, requests.arrival_seconds[keep], keep)


def _with(requests: Requests, arrivals: np.ndarray, keep: np.ndarray | slice) -> Requests:
    """The requests `keep` at these times."""
    prompts, outputs, kinds = requests.prompt_tokens[keep], requests.output_tokens[keep], requests.kinds[keep]
    return Requests(arrivals, prompts, outputs, kinds, requests.concurrency)
