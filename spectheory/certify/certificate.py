"""The certificates of verifiers and of decoding steps, and their verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from spectheory.core.arrays import Vector
from spectheory.core.draft import Draft
from spectheory.core.world import Context, DrawPolicy, World

SHOWN = 30
"""Number of contexts that are listed with one distribution."""


class Verdict(Enum):
    """The answer of a certifier to the question whether a verifier or a step keeps the target's distribution."""

    LOSSLESS = "keeps the target's distribution in every case covered"
    WITHIN = "its total variation from the target is below the stated limit, at the stated level"
    PASSED = "no probe found a fault"
    LOSSY = "does not keep the target's distribution"
    UNDECIDED = "it could not be run, or more runs are needed"

    @property
    def exit_status(self) -> int:
        """Exit status of `spectheory certify`: 0 for LOSSLESS, WITHIN and PASSED, 1 for LOSSY, 2 for UNDECIDED."""
        return {Verdict.LOSSY: 1, Verdict.UNDECIDED: 2}.get(self, 0)


@dataclass(frozen=True)
class Case:
    """A world as a table of (p, q) by context, and the policy that grows drafts in it."""

    policy: DrawPolicy
    distributions: dict[Context, tuple[Vector, Vector]]

    @property
    def world(self) -> World:
        """The distributions as a world."""
        return World.table(self.distributions)

    @property
    def size(self) -> int:
        """Number of tokens in the vocabulary."""
        return len(self.distributions[()][0])

    @property
    def length(self) -> int:
        """Number of tokens in the longest possible output."""
        return max(map(len, self.distributions)) + 1

    def lines(self) -> list[str]:
        """The policy, then p and q in each context. Contexts with the same p and q share a line."""
        groups: dict[tuple[str, str], list[Context]] = {}
        for context, (p, q) in self.distributions.items():
            groups.setdefault((shown(p), shown(q)), []).append(context)
        found = [f"policy {self.policy}"]
        for (p, q), contexts in groups.items():
            listed = ", ".join(map(text, contexts[:SHOWN])) + ", ..." * (len(contexts) > SHOWN)
            found.append(f"after {'anything' if len(groups) == 1 else listed}: p = {p}  q = {q}")
        return found


@dataclass(frozen=True)
class Counterexample:
    """A case in which the output's distribution is not the target's.

    Attributes:
        case: the world, and the policy that grows drafts in it.
        output: probability of each sequence of the common length in the output.
        target: the same by the target; those with probability 0 are left out.
        total_variation: between them; 0 if a token of probability 0 needs a random number of exactly 0.
        draft: a draft that shows it.
        run: lines about the run on this draft that shows it: its random numbers, and what it emitted.
    """

    case: Case
    output: dict[Context, Any]
    target: dict[Context, Any]
    total_variation: Any
    draft: Draft
    run: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Case, draft, run, the output's distribution next to the target's, and their total variation."""
        off = {s: abs(x - self.target.get(s, 0)) for s, x in self.output.items()}
        rows = [
            f"emits {text(s)} with probability {number(self.output[s])}, the target {number(self.target.get(s, 0))}"
            for s in sorted(off, key=lambda s: -off[s])[:4]
            if off[s]
        ]
        found = [*self.case.lines(), f"a draft that shows it: {drawn(self.draft)}", *self.run, *rows]
        return [*found, f"total variation {number(self.total_variation)}"]


@dataclass(frozen=True)
class Certificate:
    """The answer of `certify_verifier`, and the cases on which it is based.

    Attributes:
        subject: name of the certified verifier.
        verdict: LOSSLESS (in all covered cases), WITHIN (of `tolerance`), LOSSY or UNDECIDED.
        method: how the verifier's distribution was found, and in which numbers.
        covered: which trees, tokens and probabilities were compared, and what was not.
        refused: policies that the verifier itself refuses.
        tolerance: largest total variation that was allowed.
        farthest: largest total variation of a compared world; 0 if all are exact, or off by rounding.
        cases: number of different worlds that were compared.
        drafts: number of drafts in all these worlds.
        counterexample: the simplest world with at least a quarter of the largest total variation if LOSSY, else None.
        failure: why the verifier could not be run, with the case: it raised, hung or could not be enumerated.
        cannot_replay: whether its draws cannot be enumerated; `certify_step` can test such a verifier.
        notes: what does not count against the verifier: tokens of probability 0 that need a random number of exactly 0,
            and errors in branches that rounding alone reaches, with their probabilities.
        sampled: the certificate of runs on ids of a large vocabulary; None without such runs.
    """

    subject: str
    verdict: Verdict
    method: str
    covered: str
    refused: tuple[str, ...]
    cases: int
    drafts: int
    tolerance: float = 0.0
    farthest: Any = 0
    counterexample: Counterexample | None = None
    failure: str | None = None
    cannot_replay: bool = False
    notes: tuple[str, ...] = ()
    sampled: StepCertificate | None = None

    def lines(self) -> list[str]:
        """The certificate as text, for people."""
        found = self.failure.splitlines() if self.failure else []
        found += self.counterexample.lines() if self.counterexample else []
        if self.cannot_replay:
            found.append("the black-box test can decide: certify_step(as_step(verify, policy, world), world.p, ...), "
                         "or spectheory certify --black-box")  # fmt: skip
        found += [f"note: {note}" for note in self.notes]
        if self.verdict is Verdict.WITHIN:
            found.append(f"total variation at most {number(self.farthest)}, {self.tolerance:g} allowed")
        if self.cases:
            found.append(f"compared: {self.cases} worlds, {self.drafts:,} drafts, by {self.method}")
            found.append(f"covered: {self.covered}")
        found += [f"refused by the verifier itself: {policy}" for policy in self.refused]
        if self.sampled:
            sampled = self.sampled.lines()
            found += [
                f"sampled: {sampled[1]}, {self.sampled.worlds[0]}",
                *(sampled if self.verdict.exit_status else ()),
            ]
        return [f"{self.subject}: {self.verdict.name} ({self.verdict.value})", *(f"  {line}" for line in found)]

    def to_json(self) -> dict[str, Any]:
        """The certificate as JSON values, for programs. Probabilities are text, such as "1/3"."""
        found = self.counterexample
        shape = found and {
            "policy": str(found.case.policy),
            "distributions": {
                text(c): {"p": shown(p), "q": shown(q)} for c, (p, q) in found.case.distributions.items()
            },
            "output": {text(s): number(x) for s, x in found.output.items()},
            "target": {text(s): number(x) for s, x in found.target.items()},
            "total_variation": number(found.total_variation),
            "draft": drawn(found.draft),
            "run": list(found.run),
        }
        farthest = number(self.farthest)
        sampled = self.sampled and self.sampled.to_json()
        own = {"farthest": farthest, "counterexample": shape, "sampled": sampled}
        return vars(self) | {"verdict": self.verdict.name, **own}


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
        tv_pairs: upper bound on the total variation of positions of two rows of a batch from independent ones, in the
            squares of `betting.Pairs` alone, at level alpha; `tv` is allowed too. It is 0 without batches.
        worst: cell with the strongest evidence against the step; None before the first run.
        path: (samples, log wealth) at each look.
        counts: number of runs in each context.
        seed: seed of the generator that the step gets.
        failure: error of the step: it raised, hung, returned no tokens, or emitted an impossible token. Else empty.
        cycles: number of calls of the step in one run.
        unseen: largest number of tokens that one call emitted after the first `length`. They were not compared.
        worlds: names of the worlds in which the step was played; () without names.
        batch: largest number of contexts in one call of the step; None if each call had one context.
        dependence: how the rows of a batch depend on each other, if LOSSY and there is evidence for it; else empty.
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
    failure: str = ""
    cycles: int = 1
    unseen: int = 0
    worlds: tuple[str, ...] = ()
    batch: int | None = None
    dependence: str = ""
    tv_pairs: float = 0.0

    def lines(self) -> list[str]:
        """The certificate as text, for people."""
        found = [f"{self.subject}: {self.verdict.name} ({self.verdict.value})"]
        found += [self.failure] if self.failure else []
        if not self.samples:
            return found
        pooled = f"{len(self.worlds)} worlds, pooled at one level, " if len(self.worlds) > 1 else ""
        contexts = f"{pooled}{len(self.counts)} context{'s' if len(self.counts) > 1 else ''}"
        cycles = f" of {self.cycles} cycles" if self.cycles > 1 else ""
        batches = f" in batches of {self.batch:,}" if self.batch else ""
        runs = f"{self.samples:,} run{'' if self.samples == 1 else 's'}"
        played = f"{runs}{cycles}{batches} in {contexts}"
        found.append(f"{played}, joint distribution of the first {self.length} tokens")
        if self.unseen:
            found.append(f"not compared: the tokens after them; one call emitted {self.unseen} more (length = "
                         f"{self.length + self.unseen} compares them)")  # fmt: skip
        needed = f"10^{-math.log10(self.alpha):.3g}"
        found.append(f"evidence against it: {power_of_ten(self.log_wealth)}; a correct step reaches {needed} with "
                     f"probability at most {self.alpha:g}")  # fmt: skip
        found.append(f"total variation: {self.tv_seen:.4f} seen, chance included; at most {self.tv_bound:.4f} at level "
                     f"{self.alpha:g}, {self.tv:g} allowed")  # fmt: skip
        if self.worlds:
            found.append(f"worlds: {', '.join(self.worlds)}; not covered: longer drafts, larger trees, more tokens")
        if (self.batch or 1) > 1 and self.verdict is not Verdict.LOSSY:
            hint = "a smaller batch takes fewer runs" if self.tv_pairs >= self.tv else "not covered: finer dependence"
            found.append(f"two positions of two rows, in thirds: at most {self.tv_pairs:.4f} from independent; {hint}")
        found += [self.dependence] if self.dependence else []
        found += [f"largest deviation: {self.worst}"] if self.worst else []
        return found

    def to_json(self) -> dict[str, Any]:
        """The certificate as JSON values. An infinite wealth becomes null."""

        def finite(log: float) -> float | None:
            return log if math.isfinite(log) else None

        return {
            **asdict(self),
            "verdict": self.verdict.name,
            "log_wealth": finite(self.log_wealth),
            "path": [[samples, finite(log)] for samples, log in self.path],
            "counts": [{"context": list(context), "runs": runs} for context, runs in self.counts.items()],
        }


def power_of_ten(log_wealth: float) -> str:
    """A wealth, given by its natural log, in words."""
    return "without limit" if math.isinf(log_wealth) else f"10^{round(log_wealth / math.log(10), 1) + 0.0:.1f}"


def number(x: Any) -> str:
    """A probability as text: an exact fraction with a small denominator, anything else to six digits."""
    return str(x) if Fraction(x).denominator < 10**6 else f"{float(x):.6g}"


def drawn(draft: Draft) -> str:
    """The draws of a draft as text, such as "after [] drew [1]"."""
    return "; ".join(
        f"after {text(draft.context(u))} drew {text(draft.drafted(u))}" for u, d in enumerate(draft.draws) if d
    )


def shown(distribution: Sequence[Any] | Vector) -> str:
    """A distribution as text, such as (1/3, 2/3)."""
    return f"({', '.join(map(number, distribution))})"


def text(context: Sequence[int]) -> str:
    """Tokens as text, such as [0 1], or [] for the empty context."""
    return f"[{' '.join(map(str, context))}]"


def covered(cases: Sequence[Case]) -> str:
    """Which trees, tokens and probabilities these cases have, and which they lack."""
    if not cases:
        return ""
    rules = " and ".join(dict.fromkeys(case.policy.rule.name for case in cases))
    names = list(dict.fromkeys(case.policy.name for case in cases))
    sizes = ", ".join(map(str, sorted({case.size for case in cases})))
    levels = max(case.length for case in cases) - 1
    children = max(case.policy.draws(depth, 1) for case in cases for depth in range(case.length - 1))
    least = min(x for case in cases for pair in case.distributions.values() for of in pair for x in of if x)
    counts = "; ".join(name.removeprefix("Levels((").removesuffix("))").rstrip(",") for name in names)
    trees = f"{len(names)} shapes of up to {levels} levels and {children} children of a node ({counts})"
    return (
        f"{', '.join(names) if len(names) < 4 else trees}, drawn by {rules}; "
        f"{sizes} tokens, probabilities from {float(least):.1g}; "
        "not covered: larger trees, other vocabularies"
    )
