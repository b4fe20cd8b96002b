"""What the exact certifier found: what was covered, and the smallest case against it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spectheory.certify.output_distribution import Difference
from spectheory.certify.verdict import Verdict
from spectheory.core.arrays import Vector
from spectheory.core.draft import Draft
from spectheory.core.world import Context, DrawPolicy, World


@dataclass(frozen=True)
class Case:
    """A world written down, and how drafts grow in it."""

    policy: DrawPolicy
    distributions: dict[Context, tuple[Vector, Vector]]

    @property
    def world(self) -> World:
        """The distributions as a world."""
        return World.table(self.distributions)

    @property
    def length(self) -> int:
        """Tokens of the longest emission."""
        return max(map(len, self.distributions)) + 1

    def lines(self) -> list[str]:
        """The policy, and p and q in each context; contexts that share both stand in one line."""
        groups: dict[tuple[str, str], list[Context]] = {}
        for context, (p, q) in self.distributions.items():
            groups.setdefault((shown(p), shown(q)), []).append(context)
        alike = len(groups) == 1
        return [
            f"policy {self.policy}",
            *(
                f"after {'anything' if alike else ', '.join(text(c) for c in contexts)}: p = {p}  q = {q}"
                for (p, q), contexts in groups.items()
            ),
        ]


@dataclass(frozen=True)
class Counterexample:
    """The smallest case found in which the output's distribution is not the target's."""

    case: Case
    difference: Difference
    draft: Draft

    def lines(self) -> list[str]:
        """Case, draft, the distribution of the output beside the target's, and their total variation."""
        off, at = self.difference, self.draft
        drawn = "; ".join(
            f"after {text(at.context(u))} drew {text(tuple(at.drafted(u)))}" for u, d in enumerate(at.draws) if d
        )
        rows = [
            f"emits {text(s)} with probability {number(off.output[s])}, the target {number(off.target[s])}"
            for s in sorted(off.target, key=lambda s: -abs(off.output[s] - off.target[s]))[:4]
            if off.output[s] != off.target[s]
        ]
        if not rows and off.impossible:
            rows = [f"emits {text(off.impossible)}, of probability 0, when a coin is exactly 0"]
        return [
            *self.case.lines(),
            f"a draft that shows it: {drawn}",
            *rows,
            f"total variation {number(off.total_variation)}",
        ]


@dataclass(frozen=True)
class Certificate:
    """The answer of `certify_verifier`, and exactly what it rests on.

    Attributes:
        subject: what was certified.
        verdict: LOSSLESS in every case covered, LOSSY, or UNDECIDED.
        method: how its distribution was found, and in which numbers.
        covered: policies with the number of worlds of each vocabulary size, one line for each draw rule.
        refused: policies that the verifier refuses.
        sizes: vocabulary sizes.
        cases: different worlds compared.
        drafts: drafts summed over in them.
        counterexample: the smallest one, where LOSSY.
        failure: what stopped it, where it raised, hung or could not be replayed, with the case.
        cannot_replay: it draws in a way that cannot be enumerated: `certify_step` can test it.
    """

    subject: str
    verdict: Verdict
    method: str
    covered: tuple[str, ...]
    refused: tuple[str, ...]
    sizes: tuple[int, ...]
    cases: int
    drafts: int
    counterexample: Counterexample | None = None
    failure: str | None = None
    cannot_replay: bool = False

    def lines(self) -> list[str]:
        """A short report."""
        lines = [f"{self.subject}: {self.verdict.name} ({self.verdict.value})"]
        if self.failure:
            lines += [f"  {line}" for line in self.failure.splitlines()]
        if self.counterexample:
            lines += [f"  {line}" for line in self.counterexample.lines()]
        if self.cases:
            sizes = " and ".join(map(str, self.sizes))
            lines.append(f"  compared: {self.cases} worlds of {sizes} tokens, {self.drafts:,} drafts, by {self.method}")
        lines += [f"  covered, {line}" for line in self.covered]
        lines += [f"  refused by the verifier itself, {line}" for line in self.refused]
        return lines

    def to_json(self) -> dict[str, Any]:
        """The same for programs; probabilities as text."""
        found = self.counterexample
        return {
            "subject": self.subject,
            "verdict": self.verdict.name,
            "method": self.method,
            "covered": list(self.covered),
            "refused": list(self.refused),
            "vocabulary_sizes": list(self.sizes),
            "cases": self.cases,
            "drafts": self.drafts,
            "failure": self.failure,
            "counterexample": found
            and {
                "policy": str(found.case.policy),
                "distributions": {
                    text(c): {"p": shown(p), "q": shown(q)} for c, (p, q) in found.case.distributions.items()
                },
                "output": {text(s): number(x) for s, x in found.difference.output.items()},
                "target": {text(s): number(x) for s, x in found.difference.target.items()},
                "total_variation": number(found.difference.total_variation),
            },
        }


def number(x: Any) -> str:
    """A Fraction as it is, a float, or one that came of floats, to six digits."""
    return str(x) if Fraction(x).denominator < 10**6 else f"{float(x):.6g}"


def shown(distribution: Vector) -> str:
    """A distribution as (1/3, 2/3)."""
    return f"({', '.join(map(number, distribution))})"


def text(context: Context) -> str:
    """Tokens as [0 1]; the empty context as []."""
    return f"[{' '.join(map(str, context))}]"
