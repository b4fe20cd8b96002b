"""The certificate of the exact certifier: its verdict, the covered cases, and a counterexample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spectheory.certify.output_distribution import Difference
from spectheory.certify.verdict import Verdict
from spectheory.core.arrays import Vector
from spectheory.core.draft import Draft
from spectheory.core.world import Context, DrawPolicy, World

BOUNDS = {f"< {10.0**-n:g}": Fraction(1, 10**n) for n in range(1, 7)}
"""Bounds of the small probabilities that `met` counts."""


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
    def length(self) -> int:
        """Number of tokens in the longest possible output."""
        return max(map(len, self.distributions)) + 1

    def lines(self) -> list[str]:
        """The policy, then p and q in each context. Contexts with the same p and q share a line."""
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
    """A case in which the output's distribution is not the target's.

    Attributes:
        case: the world, and the policy that grows drafts in it.
        difference: the distribution of the output next to the target's.
        draft: a draft that shows it.
        run: lines about the run on this draft that shows it: its random numbers, and what it emitted.
    """

    case: Case
    difference: Difference
    draft: Draft
    run: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Case, draft, the output's distribution next to the target's, and their total variation."""
        off = self.difference
        rows = [
            f"emits {text(s)} with probability {number(off.output[s])}, the target {number(off.target[s])}"
            for s in sorted(off.target, key=lambda s: -abs(off.output[s] - off.target[s]))[:4]
            if off.output[s] != off.target[s]
        ]
        if not rows and off.impossible:
            rows = [f"emits {text(off.impossible)}, of probability 0, when a random number is exactly 0"]
        return [
            *self.case.lines(),
            f"a draft that shows it: {drawn(self.draft)}",
            *self.run,
            *rows,
            f"total variation {number(off.total_variation)}",
        ]


@dataclass(frozen=True)
class Certificate:
    """The answer of `certify_verifier`, and the cases on which it is based.

    Attributes:
        subject: name of the certified verifier.
        verdict: LOSSLESS (in all covered cases), LOSSY or UNDECIDED.
        method: how the verifier's distribution was found, and in which numbers.
        covered: policies, each with its number of worlds per vocabulary size; one line per draw rule.
        refused: policies that the verifier itself refuses; one line per draw rule.
        sizes: vocabulary sizes of the compared worlds.
        cases: number of different worlds that were compared.
        drafts: number of drafts in all these worlds.
        counterexample: the world with the largest total variation that was found if LOSSY, else None.
        failure: why the verifier could not be run, with the case: it raised, hung or could not be enumerated.
        cannot_replay: whether its draws cannot be enumerated; `certify_step` can test such a verifier.
        notes: what does not count against the verifier: tokens of probability 0 that need a random number of exactly 0,
            and errors in branches that rounding alone reaches, with their probabilities.
        met: kinds of distributions in these worlds, each with its number of worlds.
        variations: the largest total variation found on each lossy shape as (shape, number), the largest first.
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
    notes: tuple[str, ...] = ()
    variations: tuple[tuple[str, str], ...] = ()
    met: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The certificate as text, for people."""
        lines = [f"{self.subject}: {self.verdict.name} ({self.verdict.value})"]
        if self.failure:
            lines += [f"  {line}" for line in self.failure.splitlines()]
        if self.counterexample:
            lines += [f"  {line}" for line in self.counterexample.lines()]
        if len(self.variations) > 1:
            lines.append("  largest by shape: " + ", ".join(f"{shape} {off}" for shape, off in self.variations))
        if self.cannot_replay:
            lines.append(
                "  the black-box test can decide: certify_step(as_step(verify, policy, world), world.p, ...), or "
                "spectheory certify --black-box"
            )
        lines += [f"  note: {note}" for note in self.notes]
        if self.cases:
            sizes = " and ".join(map(str, self.sizes))
            lines.append(f"  compared: {self.cases} worlds of {sizes} tokens, {self.drafts:,} drafts, by {self.method}")
        lines += [f"  covered, {line}" for line in self.covered]
        lines += [f"  met, {line}" for line in self.met]
        lines += [f"  refused by the verifier itself, {line}" for line in self.refused]
        return lines

    def to_json(self) -> dict[str, Any]:
        """The certificate as JSON values, for programs. Probabilities are text, such as "1/3"."""
        found = self.counterexample
        return {
            "subject": self.subject,
            "verdict": self.verdict.name,
            "method": self.method,
            "covered": list(self.covered),
            "met": list(self.met),
            "refused": list(self.refused),
            "vocabulary_sizes": list(self.sizes),
            "cases": self.cases,
            "drafts": self.drafts,
            "failure": self.failure,
            "notes": list(self.notes),
            "total_variation_by_shape": [list(pair) for pair in self.variations],
            "counterexample": found
            and {
                "policy": str(found.case.policy),
                "distributions": {
                    text(c): {"p": shown(p), "q": shown(q)} for c, (p, q) in found.case.distributions.items()
                },
                "output": {text(s): number(x) for s, x in found.difference.output.items()},
                "target": {text(s): number(x) for s, x in found.difference.target.items()},
                "total_variation": number(found.difference.total_variation),
                "draft": drawn(found.draft),
                "run": list(found.run),
            },
        }


def number(x: Any) -> str:
    """A probability as text: an exact fraction with a small denominator, anything else to six digits."""
    return str(x) if Fraction(x).denominator < 10**6 else f"{float(x):.6g}"


def drawn(draft: Draft) -> str:
    """The draws of a draft as text, such as "after [] drew [1]"."""
    return "; ".join(
        f"after {text(draft.context(u))} drew {text(tuple(draft.drafted(u)))}" for u, d in enumerate(draft.draws) if d
    )


def shown(distribution: Sequence[Any] | Vector) -> str:
    """A distribution as text, such as (1/3, 2/3)."""
    return f"({', '.join(map(number, distribution))})"


def text(context: Context) -> str:
    """Tokens as text, such as [0 1], or [] for the empty context."""
    return f"[{' '.join(map(str, context))}]"


def covered(cases: Sequence[Case]) -> tuple[str, ...]:
    """Policies, each with its number of worlds per vocabulary size; one line per draw rule."""
    counts: dict[str, dict[str, Counter[int]]] = {}
    for case in cases:
        by_size = counts.setdefault(case.policy.rule.name, {}).setdefault(case.policy.name, Counter())
        by_size[len(case.distributions[()][0])] += 1
    sizes = sorted({len(case.distributions[()][0]) for case in cases})
    return tuple(
        f"{rule}: "
        + ", ".join(f"{name} {' + '.join(str(by[size]) for size in sizes)}" for name, by in policies.items())
        for rule, policies in counts.items()
    )


def met(cases: Sequence[Case]) -> tuple[str, ...]:
    """How many worlds have a zero, equal or disjoint p and q, or small probabilities."""
    kinds: Counter[str] = Counter()
    for case in cases:
        kinds.update({kind for p, q in case.distributions.values() for kind in _kinds(p, q)})
    found = [f"{name}: {', '.join(f'{low} {kinds[name + low]}' for low in BOUNDS)}" for name in ("p", "q")]
    others = ", ".join(f"{kind} {kinds[kind]}" for kind in ("zeros", "p = q", "disjoint", "one-hot") if kinds[kind])
    return (f"worlds with probabilities of {found[0]}; {found[1]}", *([f"worlds with {others}"] if others else []))


def _kinds(p: Any, q: Any) -> Iterator[str]:
    """What `met` counts, in one pair of distributions."""
    for name, distribution in (("p", p), ("q", q)):
        low = min(x for x in distribution if x > 0)
        yield from (name + below for below, bound in BOUNDS.items() if low < bound)
        if max(distribution) == 1:
            yield "one-hot"
        if min(distribution) == 0:
            yield "zeros"
    if all(p == q):
        yield "p = q"
    if not any(p * q):
        yield "disjoint"


def by_rule(policies: Sequence[DrawPolicy]) -> tuple[str, ...]:
    """Names of policies; one line per draw rule."""
    rules: dict[str, dict[str, None]] = {}
    for policy in policies:
        rules.setdefault(policy.rule.name, {})[policy.name] = None
    return tuple(f"{rule}: {', '.join(names)}" for rule, names in rules.items())
