"""Serving under load: the requests and steps of a server with one schedule, and the difference of schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from spectheory.core.checks import check_array
from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.core.tree import Tree

TIMES = ("arrival_seconds", "first_token_seconds", "completion_seconds")
QUANTILES = (0.5, 0.9, 0.99)
ROUNDING = 1e-9
GROUPS = 20
"""Groups of consecutive requests, whose means are taken as independent."""
OPTIONAL = {"optional": True}


@dataclass(frozen=True)
class Figures:
    """Mean and quantiles of a time, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, seconds: np.ndarray, weights: np.ndarray | None = None) -> Figures | None:
        """The figures of these times, each counted `weights` times; None without any.

        A quantile is the smallest of the times that at least this share of the times does not exceed.
        """
        counts = np.ones(len(seconds)) if weights is None else np.asarray(weights, np.float64)
        if not counts.sum():
            return None
        order = np.argsort(seconds, kind="stable")
        upto = counts[order].cumsum()
        at = np.searchsorted(upto, np.array(QUANTILES) * upto[-1] * (1 - ROUNDING))
        return cls(float(seconds @ counts / counts.sum()), *(float(seconds[order[i]]) for i in at))


@dataclass(frozen=True, eq=False, repr=False)
class ServingRun(Record):
    """What happened to each request of a load, and what the steps of the server ran.

    Attributes:
        name: the schedule that ran, such as `off`.
        request: number of each completed request in the load, increasing.
        arrival_seconds: time at which it arrived.
        first_token_seconds: time of its first token.
        completion_seconds: time of its last token.
        prompt_tokens, output_tokens, kinds: its lengths, and its class of acceptance.
        unfinished: requests that were in the system when the time was over.
        trees: the tree of each tier; the root alone means no speculation.
        tier_steps: decoding steps of each tier.
        prompt_steps: steps that only read prompts.
        drafted: drafted tokens of all cycles.
        accepted: drafted tokens that became part of an answer.
        inter_token_seconds: times between tokens of an answer as they are emitted: the tokens of a cycle arrive
            together, so all but the first of them have 0. None if no cycle ran.
        seconds: from the first arrival to the end of the run.
        busy_seconds: seconds of all steps.
        decode_seconds: seconds of the steps in which sequences decode.
        batch_seconds: sum over these steps of their seconds times the number of sequences that decode.
        request_seconds: integral over time of the number of requests in the system.
        slo_ttft_seconds, slo_tpot_seconds: limits on the time to the first token and on the time per output token;
            None means no limit.
        step_seconds, step_batch, step_tier: end of each step, its number of decoding sequences and its tier, if
            they were kept.
        stability_limit: requests per second that the server sustains with the schedule, at the best batch size; None if
            it was not computed.
        settled_batches: batch sizes at which the server can settle at the rate of the load; none if the queue grows
            from any, None if they were not computed.
        provenance: the load, the server, the seed, and what the simulation leaves out.

    Raises:
        InputError: the fields contradict each other.
    """

    kind: ClassVar[str] = "serving_run"
    derived: ClassVar[tuple[str, ...]] = ("tokens_per_second", "requests_per_second", "goodput", "mean_batch")

    name: str
    request: Int[np.ndarray, " requests"]
    arrival_seconds: Float[np.ndarray, " requests"]
    first_token_seconds: Float[np.ndarray, " requests"]
    completion_seconds: Float[np.ndarray, " requests"]
    prompt_tokens: Int[np.ndarray, " requests"]
    output_tokens: Int[np.ndarray, " requests"]
    kinds: Int[np.ndarray, " requests"]
    unfinished: int
    trees: tuple[Tree, ...]
    tier_steps: Int[np.ndarray, " tiers"]
    prompt_steps: int
    drafted: int
    accepted: int
    seconds: float
    busy_seconds: float
    decode_seconds: float
    batch_seconds: float
    request_seconds: float
    inter_token_seconds: Figures | None = None
    slo_ttft_seconds: float | None = None
    slo_tpot_seconds: float | None = None
    step_seconds: Float[np.ndarray, " steps"] | None = field(default=None, metadata=OPTIONAL)
    step_batch: Int[np.ndarray, " steps"] | None = field(default=None, metadata=OPTIONAL)
    step_tier: Int[np.ndarray, " steps"] | None = field(default=None, metadata=OPTIONAL)
    stability_limit: float | None = field(default=None, metadata=OPTIONAL)
    settled_batches: Int[np.ndarray, " batches"] | None = field(default=None, metadata=OPTIONAL)
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        count = len(check_array("request", self.request))
        for name in ("request", *TIMES, "prompt_tokens", "output_tokens", "kinds"):
            values = check_array(name, getattr(self, name))
            if values.shape != (count,) or (count and not values.min() >= 0):
                raise InputError(f"{name} must be at least 0 for each of the {count} requests, got {values!s:.80}")
            object.__setattr__(self, name, values.astype(np.float64 if name in TIMES else np.int64))
        late = (self.first_token_seconds < self.arrival_seconds) | (self.completion_seconds < self.first_token_seconds)
        if late.any() or (np.diff(self.request) <= 0).any():
            raise InputError("requests must be in order, and arrive before their first and their last token")

    def __len__(self) -> int:
        return len(self.request)

    @property
    def summary(self) -> str:
        """Requests, time per token, and tokens per second."""
        times = f"{1e3 * self.tpot.mean:.3g} ms a token; " if self.tpot else ""
        speed = f"{self.tokens_per_second:,.0f} tokens/s at a mean batch of {self.mean_batch:.1f}"
        return f"{self.name}: {len(self):,} requests; {times}{speed}"

    @property
    def ttft_seconds(self) -> Float[np.ndarray, " requests"]:
        """Time to the first token of each request."""
        return self.first_token_seconds - self.arrival_seconds

    @property
    def tpot_seconds(self) -> Float[np.ndarray, " requests"]:
        """Mean time per token after the first one; NaN for answers of one token."""
        more = self.output_tokens - 1
        decode = self.completion_seconds - self.first_token_seconds
        return np.where(more > 0, decode / np.maximum(more, 1), np.nan)

    @property
    def end_to_end_seconds(self) -> Float[np.ndarray, " requests"]:
        """Time from the arrival to the last token of each request."""
        return self.completion_seconds - self.arrival_seconds

    @property
    def meets_slo(self) -> Bool[np.ndarray, " requests"]:
        """Whether each request meets both limits. An answer of one token meets every limit on the tpot."""
        ttft = np.inf if self.slo_ttft_seconds is None else self.slo_ttft_seconds
        tpot = np.inf if self.slo_tpot_seconds is None else self.slo_tpot_seconds
        return (self.ttft_seconds <= ttft) & ~(self.tpot_seconds > tpot)

    @cached_property
    def ttft(self) -> Figures | None:
        """Time to the first token; None if no request is complete."""
        return Figures.of(self.ttft_seconds)

    @cached_property
    def tpot(self) -> Figures | None:
        """Time per output token, requests counted equally; None if no answer has more than one token."""
        tpot = self.tpot_seconds
        return Figures.of(tpot[~np.isnan(tpot)])

    @cached_property
    def end_to_end(self) -> Figures | None:
        """Time from arrival to the last token; None if no request is complete."""
        return Figures.of(self.end_to_end_seconds)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of completed answers per second."""
        return self._per_second(self.output_tokens.sum())

    @property
    def requests_per_second(self) -> float:
        """Completed requests per second."""
        return self._per_second(len(self))

    @property
    def goodput(self) -> float:
        """Completed requests per second that meet the limits."""
        return self._per_second(self.meets_slo.sum())

    @property
    def mean_batch(self) -> float:
        """Mean number of sequences that decode, over the time in which any does."""
        return self.batch_seconds / self.decode_seconds if self.decode_seconds else 0.0

    @property
    def wasted(self) -> int:
        """Drafted tokens that no answer contains."""
        return self.drafted - self.accepted

    def _per_second(self, count: float) -> float:
        return float(count / self.seconds) if self.seconds else 0.0


FIGURES: dict[str, Callable[[ServingRun], np.ndarray]] = {
    "ttft_seconds": lambda run: run.ttft_seconds,
    "tpot_seconds": lambda run: run.tpot_seconds,
    "end_to_end_seconds": lambda run: run.end_to_end_seconds,
    "slo_share": lambda run: run.meets_slo.astype(np.float64),
}
"""The figures of a request that are compared."""


@dataclass(frozen=True)
class Difference:
    """The mean difference of a figure between two schedules on the same requests.

    Attributes:
        name: the schedule.
        figure: what is compared, such as `tpot_seconds`.
        mean: mean over the requests of the figure with the schedule, minus the figure with the first schedule.
        low, high: its 95% interval; None with too few requests.
    """

    name: str
    figure: str
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False, repr=False)
class ServingComparison(Record):
    """One load served with several schedules: the same arrivals, and the same uniform numbers for the acceptance.

    The differences are of the same requests with two schedules, so that what both share cancels. Their intervals are by
    batch means: the means of 20 groups of consecutive requests count as independent. Requests that arrive close to each
    other meet the same queue; the intervals are right if a group lasts for much longer than a queue. Use several loads
    of different seeds with `simulate.collect` where that is in doubt.

    Attributes:
        runs: a run for each schedule, at least one; the others are compared with the first.
        provenance: where the runs come from.

    Raises:
        InputError: there is no run, two have one name, or runs served different requests.
    """

    kind: ClassVar[str] = "serving_comparison"
    derived: ClassVar[tuple[str, ...]] = ("differences",)

    runs: tuple[ServingRun, ...]
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        names = [run.name for run in self.runs]
        if not names or len(set(names)) < len(names):
            raise InputError(f"runs must be at least one, of different names, got {names}: name them apart")
        for run in self.runs[1:]:
            _paired(self.runs[0], run)

    @property
    def summary(self) -> str:
        """The summaries of the runs."""
        return "\n".join(run.summary for run in self.runs)

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The difference of each figure between each further run and the first one.

        A figure without values, such as the time per token of answers of one token, is left out.
        """
        found = []
        for run in self.runs[1:]:
            rows, others = _paired(self.runs[0], run)
            for name, figure in FIGURES.items():
                values = figure(run)[others] - figure(self.runs[0])[rows]
                if (known := ~np.isnan(values)).any():
                    found.append(Difference(run.name, name, *batch_means(values[known])))
        return tuple(found)


def batch_means(values: np.ndarray) -> tuple[float, float | None, float | None]:
    """The mean of values in the order of time, and its 95% interval by the means of 20 groups of consecutive ones.

    The interval is None if a group would have fewer than two values.
    """
    from scipy.stats import t

    mean = float(values.mean())
    if len(values) < 2 * GROUPS:
        return mean, None, None
    groups = np.array([group.mean() for group in np.array_split(values, GROUPS)])
    half = float(t.ppf(0.975, GROUPS - 1) * groups.std(ddof=1) / np.sqrt(GROUPS))
    return mean, mean - half, mean + half


def _paired(first: ServingRun, second: ServingRun) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the requests that both runs completed, after a check that these are the same requests."""
    _, rows, others = np.intersect1d(first.request, second.request, assume_unique=True, return_indices=True)
    for name in ("prompt_tokens", "output_tokens", "kinds"):
        if (getattr(first, name)[rows] != getattr(second, name)[others]).any():
            served = f"{first.name!r} and {second.name!r} must have served the same requests"
            raise InputError(f"{served}, but {name} differ")
    return rows, others
