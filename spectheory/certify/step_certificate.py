"""The certificate of the sequential test of a decoding step."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from spectheory.certify.verdict import Verdict
from spectheory.core.world import Context


@dataclass(frozen=True)
class Cell:
    """Expected and observed share of runs in a context that start with `tokens`, after the target has extended them."""

    context: Context
    tokens: Context
    expected: float
    observed: float
    world: str = ""

    def __str__(self) -> str:
        where = f"after context {self.context}" if self.context else "at the start"
        where += f" of world '{self.world}'" if self.world else ""
        return f"tokens {self.tokens} {where}: seen in {self.observed:.4%} of runs, {self.expected:.4%} expected"


@dataclass(frozen=True)
class PlayedIn:
    """The result of a test in one of its worlds.

    Attributes:
        world: name of the world.
        runs: number of runs in it.
        log_wealth: natural log of the wealth won in it. The level belongs to the pooled wealth, not to this one.
        tv_seen: observed total variation, chance included.
        tv_bound: upper bound on the total variation in it.
    """

    world: str
    runs: int
    log_wealth: float
    tv_seen: float
    tv_bound: float

    def __str__(self) -> str:
        return (
            f"world '{self.world}': {self.runs:,} runs, evidence {power_of_ten(self.log_wealth)}, total variation "
            f"{self.tv_seen:.4f} seen, at most {self.tv_bound:.4f}"
        )


def power_of_ten(log_wealth: float) -> str:
    """A wealth, given by its natural log, in words."""
    return "without limit" if math.isinf(log_wealth) else f"10^{round(log_wealth / math.log(10), 1) + 0.0:.1f}"


@dataclass(frozen=True)
class StepCertificate:
    """The answer of `certify_step`, with the evidence.

    If the step keeps the target's distribution, the verdict is LOSSY with probability at most `alpha`. If its total
    variation from the target is `tv` or more in some context, the verdict is WITHIN with probability at most `alpha`.

    Attributes:
        subject: name of the tested step.
        verdict: LOSSY, WITHIN or UNDECIDED.
        alpha: maximum probability of either wrong verdict.
        tv: the step passes if its total variation from the target is below this.
        length: number of tokens whose joint distribution was compared.
        samples: number of runs of the step.
        log_wealth: natural log of the wealth won by betting that the step is lossy; LOSSY from -log(alpha) on.
        tv_bound: upper bound on the total variation in every context, at level alpha; 1 before the first look.
        tv_seen: largest observed total variation in a context. On average chance makes it larger than the true one.
        worst: cell with the strongest evidence against the step; None before the first run.
        path: (samples, log wealth) at each look.
        counts: number of runs in each context.
        seed: seed of the generator that the step gets.
        needed: about how many runs would bring the bound below `tv` if the step is correct; None if there is a verdict
            or nothing was observed.
        failure: error of the step: it raised, hung, returned no tokens, or emitted an impossible token. Else empty.
        cycles: number of calls of the step in one run.
        unseen: largest number of tokens that one call emitted after the first `length`. They were not compared.
        worlds: the result in each world if the step was played in worlds with names, else ().
        batch: largest number of contexts in one call of the step; None if each call had one context.
        dependence: how the rows of a batch depend on each other, if LOSSY and there is evidence for it; else empty.
        example: a run that shows the fault, as lines: drafts, random numbers, what was emitted, and the
            target there; () without a fault.
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
    cycles: int = 1
    unseen: int = 0
    worlds: tuple[PlayedIn, ...] = ()
    batch: int | None = None
    dependence: str = ""
    example: tuple[str, ...] = ()

    @property
    def log10_wealth(self) -> float:
        """Logarithm of the wealth to base 10."""
        return self.log_wealth / math.log(10)

    @property
    def runs(self) -> str:
        """The number of runs in words, such as "1,000 runs"."""
        return f"{self.samples:,} run{'' if self.samples == 1 else 's'}"

    def lines(self) -> list[str]:
        """The certificate as text, for people."""
        pooled = f"{len(self.worlds)} worlds, pooled at one level, " if self.worlds else ""
        contexts = f"{pooled}{len(self.counts)} context{'s' if len(self.counts) > 1 else ''}"
        found = [f"{self.subject}: {self.verdict.name} ({self.verdict.value})"]
        found += [self.failure] if self.failure else []
        if not self.samples:
            return found
        cycles = f" of {self.cycles} cycles" if self.cycles > 1 else ""
        batches = f" in batches of {self.batch:,}" if self.batch else ""
        played = f"{self.runs}{cycles}{batches} in {contexts}"
        found.append(f"{played}, joint distribution of the first {self.length} tokens")
        if self.unseen:
            found.append(f"not compared: the tokens after them; one call emitted {self.unseen} more (length = "
                         f"{self.length + self.unseen} compares them)")  # fmt: skip
        won = power_of_ten(self.log_wealth)
        needed = f"10^{-math.log10(self.alpha):.3g}"
        found.append(
            f"evidence against it: {won}; a correct step reaches {needed} with probability at most {self.alpha:g}"
        )
        found.append(f"total variation: {self.tv_seen:.4f} seen, chance included; at most {self.tv_bound:.4f} at level "
                     f"{self.alpha:g}, {self.tv:g} allowed")  # fmt: skip
        found += [str(played) for played in self.worlds]
        found += [self.dependence] if self.dependence else []
        found += [f"largest deviation: {self.worst}"] if self.worst else []
        found += self.example
        if self.needed:
            found.append(f"about {self.needed:,} runs would decide if the step is correct; certify_verifier decides "
                         "without sampling if all draws go through its rng")  # fmt: skip
        return found

    def to_json(self) -> dict[str, Any]:
        """The certificate as JSON values. An infinite wealth becomes null."""
        finite = [[samples, log if math.isfinite(log) else None] for samples, log in self.path]
        return {
            **{name: value for name, value in vars(self).items() if name not in ("verdict", "worst", "path", "counts")},
            "verdict": self.verdict.name,
            "log_wealth": self.log_wealth if math.isfinite(self.log_wealth) else None,
            "worst": asdict(self.worst) if self.worst else None,
            "path": finite,
            "worlds": [
                {**asdict(played), "log_wealth": played.log_wealth if math.isfinite(played.log_wealth) else None}
                for played in self.worlds
            ],
            "counts": [{"context": list(context), "runs": runs} for context, runs in self.counts.items()],
        }
