"""`Tuned`: the schedule of highest goodput under a load, compared with others on requests not used to choose it."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.checks import check_array, check_seconds, check_whole
from spectheory.core.errors import InputError
from spectheory.core.html import table_html
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.planning.batch_ranges import span
from spectheory.planning.schedule_record import Schedule

TUNED, PLANNED, OFF = "tuned", "planned", "off"
"""The names of the tuned schedule, of the one that it was tuned from, and of no speculation."""


class Difference(NamedTuple):
    """A mean of paired differences, and its 95% interval by Student's t over the replications."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Tuned(Record):
    """A schedule tuned for a load, compared with others on replications of the load that the search did not see.

    All schedules of one replication meet the same requests and the same uniform numbers.

    Attributes:
        schedule: the tuned schedule: its fastest trees, and its fastest chains for engines that run chains only.
        names: (C,) names of the judged schedules, `tuned` first.
        goodput: completed requests per second within the limits, in each judged replication.
        ttft_seconds: mean time to the first token.
        tpot_seconds: mean time per output token after the first.
        seeds: seeds of the judged replications.
        searched: number of replications on which the schedule was chosen.
        tried: number of schedules that were tried on them.
        load_text: the load, as `simulate.load.parse` reads it.
        slo_ttft_seconds, slo_tpot_seconds: limits on the time to the first token and on the time per output token of a
            request; None means no limit.
        provenance: where the schedules come from.

    Raises:
        InputError: the fields contradict each other.
    """

    kind: ClassVar[str] = "tuned"
    derived: ClassVar[tuple[str, ...]] = ("mean_goodput", "best_found", "distance", "distance_low", "distance_high")

    schedule: Schedule
    names: tuple[str, ...]
    goodput: Float[np.ndarray, "schedules replications"]
    ttft_seconds: Float[np.ndarray, "schedules replications"]
    tpot_seconds: Float[np.ndarray, "schedules replications"]
    seeds: Int[np.ndarray, " replications"]
    searched: int
    tried: int
    load_text: str
    slo_ttft_seconds: float | None = None
    slo_tpot_seconds: float | None = None
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        shape = len(self.names), len(self.seeds)
        for name in ("goodput", "ttft_seconds", "tpot_seconds"):
            values = check_array(name, getattr(self, name))
            if values.shape != shape or values.dtype.kind not in "iuf" or not (values >= 0).all():
                raise InputError(f"{name} must have a value of at least 0 for each schedule and replication, {shape}")
            object.__setattr__(self, name, values.astype(np.float64))
        if len(self.seeds) < 2:
            raise InputError(f"seeds must have at least 2 replications, got {len(self.seeds)}")
        if not {TUNED, PLANNED, OFF} <= set(self.names) or self.names[0] != TUNED:
            raise InputError(
                f"names must be {TUNED} (the first), {PLANNED}, {OFF} and any others, got {', '.join(self.names)}"
            )
        for name in ("searched", "tried"):
            check_whole(name, getattr(self, name), 1)
        for name in ("slo_ttft_seconds", "slo_tpot_seconds"):
            if getattr(self, name) is not None:
                check_seconds(name, getattr(self, name), least=0)
        seeds = check_array("seeds", self.seeds)
        twice = any(len(set(values)) < len(values) for values in (self.names, seeds.tolist()))
        if twice or seeds.dtype.kind not in "iu":
            raise InputError(f"names and seeds must differ, got {', '.join(self.names)} and {seeds.tolist()!s:.80}")

    @property
    def summary(self) -> str:
        """The goodput of the tuned schedule, and how far it is from the best that was found."""
        gain = self.against(OFF)
        return (
            f"{self.mean_goodput[0]:.4g} requests/s within the limits, {gain.mean:+.3g} ({gain.low:+.3g} to "
            f"{gain.high:+.3g}) against no speculation; {self.distance:.2%} below the best found"
        )

    def _repr_html_(self) -> str:
        rows = [(span(first, last), str(tree)) for first, last, tree in self.schedule.ranges()]
        return table_html(self.summary, ("batch", "verify"), rows)

    @property
    def mean_goodput(self) -> Float[np.ndarray, " schedules"]:
        """Mean goodput of each schedule over the judged replications."""
        return self.goodput.mean(1)

    @property
    def best_found(self) -> str:
        """The name of the judged schedule with the highest mean goodput; `tuned` if none is higher."""
        return self.names[int(self.mean_goodput.argmax())]

    @property
    def distance(self) -> float:
        """How much lower the goodput of the tuned schedule is than the best found, as a share of the best."""
        best = self.mean_goodput.max()
        return float(1 - self.mean_goodput[0] / best) if best else 0.0

    @property
    def distance_low(self) -> float:
        """Lower end of the 95% interval of `distance`. Below 0, the tuned schedule may be the better one."""
        return -self._share(self.against(self.best_found).high)

    @property
    def distance_high(self) -> float:
        """Upper end of the 95% interval of `distance`."""
        return -self._share(self.against(self.best_found).low)

    def _share(self, requests: float) -> float:
        best = self.mean_goodput.max()
        return float(requests / best) if best else 0.0

    def against(self, name: str) -> Difference:
        """The goodput of the tuned schedule minus the goodput of another schedule, paired by replication.

        Raises:
            InputError: no judged schedule has this name.
        """
        from scipy.stats import t

        if name not in self.names:
            raise InputError(f"name must be one of {', '.join(self.names)}, got {name!r:.60}")
        differences = self.goodput[0] - self.goodput[self.names.index(name)]
        count = len(differences)
        half = float(t.ppf(0.975, count - 1)) * float(differences.std(ddof=1)) / sqrt(count)
        mean = float(differences.mean())
        return Difference(mean, mean - half, mean + half)
