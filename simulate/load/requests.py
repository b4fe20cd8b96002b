"""`Requests`: when requests arrive at a server, and how many tokens they have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Self

import numpy as np
from jaxtyping import Float64, Int64

from spectheory.core.checks import SHORTEST, check_array, check_whole
from spectheory.core.errors import InputError

LONGEST = 2**31 - 1
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
            raise InputError(f"arrival_seconds must be a time for each request, got an array of shape {arrivals.shape}")
        if not ((arrivals >= 0) & (arrivals <= LATEST)).all() or (np.diff(arrivals) < 0).any():
            raise InputError(
                f"arrival_seconds must be in order and from 0 to {LATEST:g} seconds, got {arrivals!s:.80}: sort the "
                "requests by arrival, or raise the rate"
            )
        columns = {"arrival_seconds": np.where(arrivals < SHORTEST, 0.0, arrivals)}
        if self.kinds is None:
            object.__setattr__(self, "kinds", np.zeros(len(arrivals), np.int64))
        for name, least in (("prompt_tokens", 1), ("output_tokens", 1), ("kinds", 0)):
            values = check_array(name, getattr(self, name))
            whole = values.shape == arrivals.shape and values.dtype.kind in "iu"
            if not whole or values.min() < least or values.max() > LONGEST:
                raise InputError(
                    f"{name} must be a whole number from {least} to {LONGEST:,} for each of the {len(arrivals)} "
                    f"requests, got {values.dtype} of shape {values.shape}: {values!s:.80}"
                )
            columns[name] = values.astype(np.int64)
        for name, values in columns.items():
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        if self.concurrency is not None:
            check_whole("concurrency", self.concurrency, 1)
            if self.arrival_seconds.any():
                raise InputError("arrival_seconds must be 0 in a closed loop: give zeros, or leave concurrency out")

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

    def at_rate(self, rate: float) -> Self:
        """The same requests with all times stretched, so that `rate` of them arrive in a second on average.

        Raises:
            InputError: `rate` is not above 0, or the requests have no rate: they are a closed loop, or arrive at once.
        """
        check_positive("rate", rate)
        if self.rate is None:
            raise InputError("requests must arrive over time to have another rate, but they are a closed loop or batch")
        return replace(self, arrival_seconds=self.arrival_seconds * (self.rate / rate))

    def until(self, seconds: float) -> Self:
        """The requests that arrive before `seconds`. Raises InputError if none does, or in a closed loop."""
        check_positive("seconds", seconds)
        keep = self.arrival_seconds < seconds
        if self.concurrency is not None or not keep.any():
            raise InputError(
                f"seconds must let some of {len(self):,} requests arrive, and be left out in a closed loop, got "
                f"{seconds:g}"
            )
        return type(self)(
            self.arrival_seconds[keep], self.prompt_tokens[keep], self.output_tokens[keep], self.kinds[keep]
        )


def check_positive(name: str, value: Any, *, most: float = float("inf")) -> None:
    """Refuse a value that is not a finite number above 0 and at most `most`."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value <= most or not isfinite(value):
        raise InputError(f"{name} must be a finite number above 0, at most {most:g}, got {value!r:.80}")
