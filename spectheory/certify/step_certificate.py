"""What the sequential test of a decoding step found."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from spectheory.certify.verdict import Verdict
from spectheory.core.world import Context


@dataclass(frozen=True)
class Cell:
    """How often runs in a context began with `tokens`, once the target had extended them, and how often they should."""

    context: Context
    tokens: Context
    expected: float
    observed: float

    def __str__(self) -> str:
        where = f"after context {self.context}" if self.context else "at the start"
        return f"tokens {self.tokens} {where}: seen in {self.observed:.4%} of runs, {self.expected:.4%} expected"


@dataclass(frozen=True)
class StepCertificate:
    """The answer of `certify_step`, with the evidence.

    A step that keeps the target's distribution is called LOSSY with probability at most `alpha`; a step whose total
    variation from it is `tv` or more in some context is called WITHIN with probability at most `alpha`.

    Attributes:
        subject: what was tested.
        verdict: LOSSY, WITHIN or UNDECIDED.
        alpha: level of either error.
        tv: the total variation below which a step is passed.
        length: tokens whose joint distribution was compared.
        samples: runs of the step.
        log_wealth: natural log of the wealth won against the claim that the step is right; LOSSY from -log(alpha) on.
        tv_bound: the total variation is below this in every context, at level alpha; 1 before the first look.
        tv_seen: largest total variation of the observed distribution in a context; above the truth by chance on
            average.
        worst: the cell that speaks loudest against the step, None before the first run.
        path: (samples, log wealth) at each look.
        counts: runs in each context.
        seed: of the generator handed to the step.
        needed: about how many samples would bring the bound below `tv`, were the step right; None where one was found
            wrong or passed, or nothing was seen.
        failure: what the step did wrong that is no token at all, or which token does not exist.
    """

    subject: str
    verdict: Verdict
    alpha: float
    tv: float
    length: int
    samples: int
    log_wealth: float
    tv_bound: float
    tv_seen: float
    worst: Cell | None
    path: tuple[tuple[int, float], ...]
    counts: dict[Context, int]
    seed: int
    needed: int | None = None
    failure: str = ""

    @property
    def log10_wealth(self) -> float:
        """The wealth as a power of ten."""
        return self.log_wealth / math.log(10)

    @property
    def runs(self) -> str:
        """The number of samples in words."""
        return f"{self.samples:,} run{'' if self.samples == 1 else 's'}"

    def lines(self) -> list[str]:
        """A short report."""
        contexts = f"{len(self.counts)} context{'s' if len(self.counts) > 1 else ''}"
        found = [f"{self.subject}: {self.verdict.name} ({self.verdict.value})"]
        found += [self.failure] if self.failure else []
        if not self.samples:
            return found
        found.append(f"{self.runs} in {contexts}, joint distribution of the first {self.length} tokens")
        won = "without limit" if math.isinf(self.log_wealth) else f"10^{round(self.log10_wealth, 1) + 0.0:.1f}"
        needed = f"10^{-math.log10(self.alpha):.3g}"
        found.append(
            f"evidence against it {won}; a right step reaches {needed} with probability at most {self.alpha:g}"
        )
        found.append(f"total variation: {self.tv_seen:.4f} seen, chance included; at most {self.tv_bound:.4f} at level "
                     f"{self.alpha:g}, {self.tv:g} asked for")  # fmt: skip
        found += [f"largest deviation: {self.worst}"] if self.worst else []
        found += [f"about {self.needed:,} runs would decide, were the step right"] if self.needed else []
        return found

    def to_json(self) -> dict[str, Any]:
        """The certificate as JSON values; an infinite wealth is null."""
        finite = [[samples, log if math.isfinite(log) else None] for samples, log in self.path]
        return {
            **{name: value for name, value in vars(self).items() if name not in ("verdict", "worst", "path", "counts")},
            "verdict": self.verdict.name,
            "log_wealth": self.log_wealth if math.isfinite(self.log_wealth) else None,
            "worst": asdict(self.worst) if self.worst else None,
            "path": finite,
            "counts": [{"context": list(context), "runs": runs} for context, runs in self.counts.items()],
        }
