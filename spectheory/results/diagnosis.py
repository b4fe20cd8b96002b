"""`Diagnosis`: why speculation on a server is as fast as it is, cause by cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from spectheory.core.checks import check_seconds
from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record

Name = Literal["acceptance", "draft", "verification", "batch", "overhead"]
TITLES: dict[str, str] = {
    "acceptance": "acceptance low",
    "draft": "draft slow",
    "verification": "verification not flat",
    "batch": "batch too large",
    "overhead": "overhead",
}
"""The name of each cause in reports."""
NOTABLE = 1.1
"""A factor is a cause if the server would be this many times as fast with its usual value."""
SECONDS = ("cycle_seconds", "plain_seconds", "draft_seconds", "verification_seconds", "overhead_seconds")


@dataclass(frozen=True)
class Factor:
    """One factor of the speed.

    Attributes:
        name: the factor, one of `TITLES`.
        figures: the measured figures, in words.
        gain: how many times as fast the server would be if only this factor had its usual value; None if the data do
            not tell.
        change: what to change if it is a cause.
        measure: the measurement that would tell, if `gain` is None.
    """

    name: Name
    figures: str
    gain: float | None
    change: str
    measure: str

    def __post_init__(self) -> None:
        if self.gain is not None and not 1 <= self.gain < float("inf"):
            raise InputError(f"gain of {self.name} must be finite and at least 1, got {self.gain}")

    @property
    def is_cause(self) -> bool:
        """Whether the server would be notably faster with the usual value of this factor."""
        return self.gain is not None and self.gain >= NOTABLE


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Record):
    """Why speculation on a server is as fast as it is. A figure that is unknown is None.

    Attributes:
        engine: title of the engine.
        report: kind of the report, such as "vllm-metrics".
        model: the label of the model, if the server has several; otherwise "".
        tau: tokens per target call.
        nodes: drafted tokens per cycle, the root excluded; 0 if nothing was drafted.
        depth: levels of a draft.
        batch: mean number of sequences that decode together.
        cycle_seconds: seconds of a cycle, with the prompts that are read in it.
        plain_seconds: the same for a step without speculation.
        draft_seconds, verification_seconds, overhead_seconds: the parts of a cycle.
        factors: the factors of the speed; empty if nothing was drafted.
        length: number of drafted tokens that is fastest by the rates and times, 0 for no speculation.
        length_gain: how many times as fast as now the server is with it, by the same rates and times.
        length_setting: the setting of the engine for it.
        notes: what the figures contain, and what was assumed.
    """

    kind: ClassVar[str] = "diagnosis"
    derived: ClassVar[tuple[str, ...]] = ("speedup", "causes")

    engine: str
    report: str
    model: str
    tau: float
    nodes: float | None
    depth: int | None
    batch: float | None
    cycle_seconds: float | None
    plain_seconds: float | None
    draft_seconds: float | None
    verification_seconds: float | None
    overhead_seconds: float | None
    factors: tuple[Factor, ...]
    length: int | None = None
    length_gain: float | None = None
    length_setting: str = ""
    notes: tuple[str, ...] = ()
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        for name in SECONDS:
            if getattr(self, name) is not None:
                check_seconds(name, getattr(self, name), least=0)
        if not self.tau >= 1:
            raise InputError(f"tau must be at least 1, got {self.tau}")

    @property
    def speedup(self) -> float | None:
        """Speed with speculation divided by the speed without it; None if one of the two is unknown."""
        if not self.cycle_seconds or not self.plain_seconds:
            return None
        return self.tau * self.plain_seconds / self.cycle_seconds

    @property
    def causes(self) -> tuple[str, ...]:
        """The names of the factors that make the server notably slower than it could be, the largest first."""
        found = [factor for factor in self.factors if factor.is_cause]
        return tuple(factor.name for factor in sorted(found, key=lambda factor: -(factor.gain or 0)))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the factors about which the data do not tell."""
        return tuple(factor.name for factor in self.factors if factor.gain is None)

    @property
    def summary(self) -> str:
        """One line: the speedup, the causes, and what is not known."""
        served = f"{self.engine} {self.model}".strip()
        if not self.factors:
            return f"{served}: nothing was drafted"
        speed = "speedup unknown" if self.speedup is None else f"{self.speedup:.2f}x of plain decoding"
        said = ", ".join(TITLES[name] for name in self.causes) or ("no cause found" if not self.unknown else "no cause")
        said += f"; not known: {', '.join(self.unknown)}" if self.unknown else ""
        return f"{served}: tau {self.tau:.2f}, {speed}; {said}"
