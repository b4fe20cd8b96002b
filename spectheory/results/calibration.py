"""Calibration: measured and predicted tau for many combinations of policy, verifier and temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record

BOUND = 4.0
"""If all predictions are correct, some |z| exceeds this bound with probability at most `Calibration.level`."""
PREDICTIONS = ("positional", "classes", "replayed")
"""The predictions that know only other prompts than the measured ones."""
INTERVALS = ("tau", *PREDICTIONS)
TAUS = ("exact", *(f"{name}{end}" for name in INTERVALS for end in ("", "_low", "_high")))
COUNTS = ("requests", "cycles", "compared", "identical")
LEAST = dict.fromkeys(TAUS, 1) | dict.fromkeys((*COUNTS, "temperature", "nodes", "repeated_share", "largest_margin"), 0)
"""The smallest allowed value of each field."""


@dataclass(frozen=True)
class Calibrated:
    """One combination of policy, verifier and temperature, with its measured tau and four predictions of it.

    The first prediction, `exact`, uses the verifier's exact distribution at every cycle of the measured run. The other
    three know only other prompts: `positional` multiplies acceptance rates by depth and rank, `classes` averages over
    a mixture of request classes that is fitted to counts of a chain, and `replayed` replays the policy and the
    verifier on texts of the target. A field is None if it does not apply.

    Attributes:
        family: the kind of policy.
        requests, cycles: number of decoded texts, and number of draft-and-verify cycles in these texts.
        nodes: mean number of drafted nodes per cycle.
        tau: measured tokens per target call.
        tau_low, tau_high: limits of the 95% interval of tau, with requests as clusters.
        exact: mean over the cycles of E[tau | draft, p] under the verifier's distribution; in greedy
            decoding it equals `tau`.
        z: sum over the cycles of tau - E[tau | draft, p], divided by the square root of the sum of Var[tau | draft, p];
            None if nothing is random, as in greedy decoding.
        positional: tau predicted from acceptance rates by depth and rank, traced on other prompts.
        positional_low, positional_high: limits of the 95% interval of `positional`, from the counts of these rates.
        classes: tau by `RequestClasses`, fitted to the counts that an engine with a chain would give for these prompts.
        classes_low, classes_high: limits of the 95% interval of `classes`.
        replayed: tau replayed on the texts that the target generated after other prompts.
        replayed_low, replayed_high: limits of the 95% interval of `replayed`, with texts as clusters.
        replay_z: number of measured cycles minus the number that replay expects on the same texts, divided by the
            square root of its variance given the texts.
        repeated_share: share of four-token runs that occurred earlier in the same text.
        compared, identical: number of texts that were compared with the text of plain greedy decoding, and number of
            these texts that are equal to it.
        largest_margin: where a text first differs from plain decoding, the target gives the two tokens different
            logits; this is the largest such difference.
    """

    policy: str
    family: str
    verifier: str
    temperature: float
    requests: int
    cycles: int
    nodes: float
    tau: float
    tau_low: float | None
    tau_high: float | None
    exact: float
    z: float | None
    positional: float | None
    positional_low: float | None
    positional_high: float | None
    classes: float | None
    classes_low: float | None
    classes_high: float | None
    replayed: float | None
    replayed_low: float | None
    replayed_high: float | None
    replay_z: float | None
    repeated_share: float | None
    compared: int
    identical: int
    largest_margin: float | None

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise InputError(f"{name} must be finite and at least {least}, got {value}")
        for name in INTERVALS:
            low, high = self.interval(name)
            if low is not None and high is not None and low > high:
                raise InputError(f"the lower limit of an interval must be at most the upper one, got {low} and {high}")
        if self.repeated_share is not None and self.repeated_share > 1:
            raise InputError(f"repeated_share must be between 0 and 1, got {self.repeated_share}")
        if not self.identical <= self.compared <= self.requests:
            raise InputError(
                f"identical must be at most compared, and compared at most requests, got {self.identical}, "
                f"{self.compared} and {self.requests}"
            )

    def interval(self, name: str) -> tuple[float | None, float | None]:
        """The 95% interval of `tau` or of one of `PREDICTIONS`."""
        return getattr(self, f"{name}_low"), getattr(self, f"{name}_high")

    def error_percent(self, name: str) -> float | None:
        """How far one of `PREDICTIONS` is above the measured tau, in percent of the measured tau; None without it."""
        predicted = getattr(self, name)
        return None if predicted is None else 100 * (predicted / self.tau - 1)


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Record):
    """All measured combinations of a policy and a verifier, with what was predicted for them.

    Attributes:
        rows: the combinations.
        left_out: for each verifier that was not measured, the reason.
    """

    kind: ClassVar[str] = "calibration"
    schema: ClassVar[int] = 5
    derived: ClassVar[tuple[str, ...]] = ("widest_z", "level")

    rows: tuple[Calibrated, ...]
    left_out: dict[str, str]
    provenance: Provenance = UNKNOWN

    @property
    def summary(self) -> str:
        """The number of measured combinations, and the z that is furthest from 0."""
        z = "" if self.widest_z is None else f"; widest z {self.widest_z:.2f}"
        return f"{len(self.rows)} combinations{z}"

    def sampling(self, temperature: float) -> str:
        """The sampling of the rows at a temperature, in words. Greedy decoding has no top-k and no top-p."""
        stamp = self.provenance.replace(temperature=float(temperature))
        return (stamp if temperature else stamp.replace(top_k=None, top_p=None)).sampling

    @property
    def widest_z(self) -> float | None:
        """The z that is furthest from 0; None if every combination is greedy."""
        return max((row.z for row in self.rows if row.z is not None), key=abs, default=None)

    @property
    def level(self) -> float:
        """Largest probability with which correct predictions give some |z| above `BOUND`: a sum of normal tails."""
        return math.erfc(BOUND / math.sqrt(2)) * sum(row.z is not None for row in self.rows)
