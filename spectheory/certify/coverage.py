"""What a search of worlds has covered and met, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from spectheory.certify.certificate import Case
from spectheory.core.world import DrawPolicy


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
    smallest = [f"< {10.0**-n:g}" for n in range(1, 7)]
    found = [f"{name}: {', '.join(f'{low} {kinds[name + low]}' for low in smallest)}" for name in ("p", "q")]
    others = ", ".join(f"{kind} {kinds[kind]}" for kind in ("zeros", "p = q", "disjoint", "one-hot") if kinds[kind])
    return (f"worlds with probabilities of {found[0]}; {found[1]}", *([f"worlds with {others}"] if others else []))


def _kinds(p: Any, q: Any) -> Iterator[str]:
    """What `met` counts, in one pair of distributions."""
    for name, distribution in (("p", p), ("q", q)):
        low = min(x for x in distribution if x > 0)
        yield from (f"{name}< {10.0**-n:g}" for n in range(1, 7) if low < Fraction(1, 10**n))
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
