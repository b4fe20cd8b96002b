"""`Requests`: when requests arrive at a server, and how many tokens they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float64, Int64

from spectheory.core.checks import SHORTEST, check_array, check_whole
from spectheory.core.errors import InputError

MOST_TOKENS = 2**31 - 1
"""Maximum number of tokens of a prompt or of an answer."""
LATEST = 1e9
"""The latest arrival in seconds, 32 years: the clock of a simulation then still counts tenths of a microsecond."""


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests in the order in which they arrive.

    Attributes:
        arrival_seconds: non-decreasing times from 0 to `LATEST`. All are 0 in a closed loop. Times below 1e-30 s
            count as 0.
        prompt_tokens: tokens of each prompt, at least 1.
        output_tokens: tokens of each answer, at least 1.
        kinds: index of the class of acceptance of each request; None is class 0 for all.
        concurrency: closed loop: at most this many requests are in the system, and the next one arrives when an earlier
            one completes. None: requests arrive at `arrival_seconds`.

    Raises:
        InputError: there is no request, the arrays differ in length, a time is out of range or out of order, a
            number of tokens is out of range, or a closed loop has arrival times.
    """

    arrival_seconds: Float64[np.ndarray, " requests"]
    prompt_tokens: Int64[np.ndarray, " requests"]
    output_tokens: Int64[np.ndarray, " requests"]
    kinds: Int64[np.ndarray, " requests"] = None  # type: ignore[assignment]
    concurrency: int | None = None

    def __post_init__(self) -> None:
        arrivals = check_array("arrival_seconds", self.arrival_seconds)
        if arrivals.ndim != 1 or not arrivals.size or arrivals.dtype.kind not in "iuf":
            raise InputError(
                f"arrival_seconds must be a time for each request, at least one, got an array of shape "
                f"{arrivals.shape} and type {arrivals.dtype}"
            )
        _set(self, "arrival_seconds", _ordered(arrivals.astype(np.float64)))
        if self.kinds is None:
            _set(self, "kinds", np.zeros(len(arrivals), np.int64))
        for name, least in (("prompt_tokens", 1), ("output_tokens", 1), ("kinds", 0)):
            _set(self, name, _whole(name, getattr(self, name), least, len(arrivals)))
        if self.concurrency is not None:
            check_whole("concurrency", self.concurrency, 1)
            if self.arrival_seconds.any():
                raise InputError(
                    "arrival_seconds must be 0 in a closed loop, in which a request arrives when an earlier one "
                    "completes: give zeros, or leave concurrency out"
                )

    def __len__(self) -> int:
        return len(self.arrival_seconds)

    @property
    def rate(self) -> float | None:
        """Mean number of requests that arrive in a second; None in a closed loop, and if all arrive at one time."""
        last = float(self.arrival_seconds[-1])
        return None if self.concurrency is not None or last <= 0 else len(self) / last

    @classmethod
    def closed(cls, concurrency: int, prompt_tokens: Any, output_tokens: Any, kinds: Any = None) -> Self:
        """A closed loop of requests with these numbers of tokens."""
        count = len(check_array("output_tokens", output_tokens))
        return cls(np.zeros(count), prompt_tokens, output_tokens, kinds, concurrency)


def _set(requests: Requests, name: str, value: np.ndarray) -> None:
    value.setflags(write=False)
    object.__setattr__(requests, name, value)


def _ordered(arrivals: np.ndarray) -> np.ndarray:
    """The arrival times after a check."""
    wrong = ~((arrivals >= 0) & (arrivals <= LATEST))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"arrival_seconds[{row}] must be from 0 to {LATEST:g} seconds, got {arrivals[row]:g}: raise the rate, or "
            "leave out later requests"
        )
    if (falls := np.diff(arrivals) < 0).any():
        row = int(falls.argmax()) + 1
        raise InputError(
            f"arrival_seconds must be in order, got {arrivals[row]:g} at {row} after {arrivals[row - 1]:g}: sort the "
            "requests by arrival"
        )
    return np.where(arrivals < SHORTEST, 0.0, arrivals)


def _whole(name: str, given: Any, least: int, count: int) -> np.ndarray:
    """(count,) whole numbers of at least `least`, after a check."""
    values = check_array(name, given)
    if values.shape != (count,) or values.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a whole number for each of the {count} requests, got an array of shape {values.shape} and "
            f"type {values.dtype}"
        )
    wrong = (values < least) | (values > MOST_TOKENS)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{name}[{row}] must be from {least} to {MOST_TOKENS:,}, got {values[row]}")
    return values.astype(np.int64)
