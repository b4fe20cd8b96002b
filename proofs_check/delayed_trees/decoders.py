"""The value of a policy, Eq. (9), and which contexts represent decoding: the roots of the policy's own cycles.

Small decoders are played whole: two tokens, distributions that depend on the last token, and one drafted token or none
in each cycle. The last committed token is then a Markov chain over cycles, whose stationary distribution is found
exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.delayed_trees.library import played
from proofs_check.delayed_trees.verification import naive
from proofs_check.delayed_trees.walks import ContextTable, all_laws
from proofs_check.plain import spelled
from proofs_check.plays import ONE, ZERO, gathered
from proofs_check.small_drafts import Law

Pairs = tuple[tuple[Law, Law], tuple[Law, Law]]
"""(p, q) after each last token."""
Cycle = dict[tuple[int, int], Fraction]
"""The distribution of (tokens, last token) after one cycle."""
DraftedAfter = tuple[int, int]
"""Drafted tokens, 0 or 1, after each last token."""


@cache
def cycle(pairs: Pairs, last: int, length: int) -> Cycle:
    """The distribution after one cycle of Naive that starts after token `last` and drafts `length` tokens."""
    return gathered(
        ((tau + 1, token), chance * x)
        for (path, tau, tokens), chance in naive(ContextTable((pairs[last], *pairs)), length).items()
        for token, x in (enumerate(pairs[(last, *path)[-1]][0]) if tau == length else [(tokens[-1], ONE)])
    )


def roots(cycles: list[Cycle]) -> Law | None:
    """How often each last token is the root of a cycle in the long run; None where it depends on the first token."""
    away = [sum((x for (_, to), x in cycles[last].items() if to != last), ZERO) for last in (0, 1)]
    total = sum(away, ZERO)
    return (away[1] / total, away[0] / total) if total else None


@dataclass(frozen=True)
class TimedPairs:
    """Target and draft distributions after each last token, and the time of a draft forward; a target forward takes 1.

    Drafts are verified by Naive.
    """

    pairs: Pairs
    draft: Fraction

    def tokens(self, last: int, length: int) -> Fraction:
        """Mean number of tokens that a cycle emits after the last token `last`."""
        return sum((n * chance for (n, _), chance in cycle(self.pairs, last, length).items()), ZERO)

    def seconds(self, length: int) -> Fraction:
        """Seconds of one cycle."""
        return 1 + self.draft * length

    def roots(self, policy: DraftedAfter) -> Law | None:
        """Long-run shares of the cycles whose root is each token; None where they depend on the first token."""
        return roots([cycle(self.pairs, last, length) for last, length in enumerate(policy)])

    def long_run(self, policy: DraftedAfter) -> tuple[Fraction, Fraction, Fraction] | None:
        """(tokens per cycle, tokens per second, mean over cycles of tokens per second) in the long run.

        None where they depend on the first token, as for `roots`.
        """
        shares = self.roots(policy)
        if shares is None:
            return None
        parts = [(share, self.tokens(at, policy[at]), self.seconds(policy[at])) for at, share in enumerate(shares)]
        tokens = sum((share * n for share, n, _ in parts), ZERO)
        return tokens, tokens / sum(share * t for share, _, t in parts), sum((s * n / t for s, n, t in parts), ZERO)

    def shown(self) -> dict[str, Any]:
        """The distributions as data for a counterexample."""
        p, q = zip(*self.pairs, strict=True)
        return {"p_after_each_token": p, "q_after_each_token": q}


POLICIES: list[DraftedAfter] = [(0, 0), (0, 1), (1, 0), (1, 1)]


def decoders(largest: int) -> list[TimedPairs]:
    """Decoders in which no policy is stuck; a draft forward takes 1/2, 1/3 or 1/4 of a target forward."""
    laws = list(product(all_laws(2, largest), repeat=2))
    found = [TimedPairs(((p[0], q[0]), (p[1], q[1])), Fraction(1, d)) for p, q, d in product(laws, laws, (2, 3, 4))]
    return [one for one in found if all(one.roots(policy) for policy in POLICIES)]


def values(decoder: TimedPairs) -> dict[DraftedAfter, tuple[Fraction, Fraction, Fraction]]:
    """`long_run` of every policy."""
    return {policy: worth for policy in POLICIES if (worth := decoder.long_run(policy))}


def all_rates(largest: int) -> list[Fraction]:
    """Fractions in [0, 1] with denominators up to `largest`, the simplest first."""
    return sorted({Fraction(n, d) for d in range(1, largest + 1) for n in range(d + 1)}, key=lambda x: x.denominator)


def misled(decoder: TimedPairs) -> bool:
    """Whether every maximiser of Eq. (9), overall or in each context alone, is slower than some policy."""
    found = values(decoder)
    best = max(speed for _, speed, _ in found.values())
    by_mean = max(mean for _, _, mean in found.values())
    slow = all(speed < best for _, speed, mean in found.values() if mean == by_mean)
    each = [[decoder.tokens(at, a) / decoder.seconds(a) for a in (0, 1)] for at in (0, 1)]
    (a, b), (c, d) = each
    alone: list[DraftedAfter] = [(int(b > a), int(d > c)), (int(b >= a), int(d >= c))]
    return slow and all(found[policy][1] < best for policy in alone)


def pace(policy: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    """Tokens per second over contexts that are equally frequent; `policy` has (tokens, seconds) for each context."""
    return sum((n for n, _ in policy), ZERO) / sum((t for _, t in policy), ZERO)


def drafting(accepted: Fraction, draft: Fraction) -> list[tuple[Fraction, Fraction]]:
    """(tokens, seconds) with no drafted token and with one."""
    return [(ONE, ONE), (1 + accepted, 1 + draft)]


def by_own_ratio(accepted: Sequence[Fraction], draft: Fraction) -> list[tuple[Fraction, Fraction]]:
    """The maximiser of Eq. (9): in each context the action with the highest tokens / seconds."""
    return [max(drafting(a, draft), key=lambda action: action[0] / action[1]) for a in accepted]


def best_pace(accepted: Sequence[Fraction], draft: Fraction) -> Fraction:
    """The highest tokens per second of all policies where the contexts are independent of the actions."""
    return max(map(pace, product(*(drafting(a, draft) for a in accepted))))


def priced(accepted: tuple[Fraction, ...], draft: Fraction) -> Fraction:
    """Tokens per second of the actions that maximise tokens - rate x seconds, at the best rate."""
    best = best_pace(accepted, draft)
    return pace([max(drafting(a, draft), key=lambda action: action[0] - best * action[1]) for a in accepted])


def speeds(decoder: TimedPairs) -> dict[str, Fraction]:
    """Tokens per second of the policies that maximise Eq. (9), the fastest of them, and of the fastest policy."""
    found = values(decoder)
    by_mean = max(mean for _, _, mean in found.values())
    chosen = max(speed for _, speed, mean in found.values() if mean == by_mean)
    return {"by_Eq_9": chosen, "best": max(speed for _, speed, _ in found.values())}


@claim("D-EQ9")
def objective(effort: int) -> Finding:
    decoder = smallest(decoders(3), misled)
    found = values(decoder)
    by_mean = max(found, key=lambda policy: found[policy][2])
    best = max(found, key=lambda policy: found[policy][1])
    parts = product(product(all_rates(6), repeat=2), (Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)))
    accepted, draft = smallest(parts, lambda *case: pace(by_own_ratio(*case)) < best_pace(*case))
    quarters = [Fraction(n, 4 * effort) for n in range(4 * effort + 1)]
    contexts = [*product(product(quarters, repeat=3), [Fraction(1, d) for d in (2, 3, 4, 8)])]
    return Finding(
        {"count": len(contexts), "rates": spelled(accepted), "draft": draft}
        | {"by_eq_9": pace(by_own_ratio(accepted, draft)), "best": best_pace(accepted, draft)},
        {
            **decoder.shown(),
            "draft_seconds": decoder.draft,
            "target_seconds": ONE,
            "best_by_eq_9": {
                "drafted_tokens": by_mean,
                "eq_9": found[by_mean][2],
                "tokens_per_second": found[by_mean][1],
            },
            "fastest": {"drafted_tokens": best, "eq_9": found[best][2], "tokens_per_second": found[best][1]},
            "independent_contexts": {
                "acceptance_in_each": list(accepted),
                "draft_seconds": draft,
                "tokens_per_second_by_eq_9": pace(by_own_ratio(accepted, draft)),
                "tokens_per_second_best": best_pace(accepted, draft),
            },
        },
        cases={
            "decoder": (speeds(one) for one in decoders(3)),
            "three_contexts": ({"by_price": priced(*one), "best": best_pace(*one)} for one in contexts),
        },
    )


@second("D-EQ9")
def _(case: Case) -> dict[str, Any]:
    pairs, cycles = list(zip(case["p_after_each_token"], case["q_after_each_token"], strict=True)), 80
    speeds = {}
    for name in ("best_by_eq_9", "fastest"):
        policy = case[name]["drafted_tokens"]
        tokens, after_1 = played(pairs, policy, cycles)
        drafts = policy[1] * after_1 + policy[0] * (cycles - after_1)
        speeds[name] = tokens / (cycles + case["draft_seconds"] * drafts)
        assert abs(speeds[name] - case[name]["tokens_per_second"]) < Fraction(3, cycles)
    assert speeds["best_by_eq_9"] < speeds["fastest"]
    assert case["best_by_eq_9"]["eq_9"] > case["fastest"]["eq_9"]
    return {"cycles": cycles}


@claim("D-ROOTS")
def equally_spaced_roots(effort: int) -> Finding:
    always: DraftedAfter = (1, 1)

    def positions(decoder: TimedPairs) -> Law:
        return decoder.roots((0, 0)) or (ZERO, ZERO)  # plain decoding stops at every token

    def by_position(decoder: TimedPairs) -> Fraction:
        return sum((x * decoder.tokens(at, 1) for at, x in enumerate(positions(decoder))), ZERO)

    def per_cycle(decoder: TimedPairs) -> Fraction:
        return values(decoder)[always][0]

    def means(decoder: TimedPairs) -> dict[str, Any]:
        roots = decoder.roots(always) or (ZERO, ZERO)
        return {
            "mean_over_positions": by_position(decoder),
            "mean_over_own_roots": sum((x * decoder.tokens(at, 1) for at, x in enumerate(roots)), ZERO),
            "tokens_per_cycle": per_cycle(decoder),
            "share_of_roots": roots,
            "share_of_positions": positions(decoder),
        }

    cases = [one for one in decoders(1 + effort) if one.draft == Fraction(1, 2)]
    decoder = smallest(cases, lambda one: by_position(one) != per_cycle(one))
    equal = [one for one in cases if one.roots(always) == positions(one)]
    return Finding(
        {"count": len(cases) + len(equal), "told": by_position(decoder), "true": per_cycle(decoder)},
        {
            **decoder.shown(),
            "share_of_positions": positions(decoder),
            "share_of_roots": decoder.roots(always),
            "mean_over_positions": by_position(decoder),
            "tokens_per_cycle": per_cycle(decoder),
        },
        cases={"decoder": (means(one) for one in cases)},
    )


@second("D-ROOTS")
def _(case: Case) -> dict[str, Any]:
    pairs, cycles = list(zip(case["p_after_each_token"], case["q_after_each_token"], strict=True)), 80
    tokens, after_1 = played(pairs, (1, 1), cycles)
    plain, positions_1 = played(pairs, (0, 0), cycles)
    assert plain == cycles
    assert abs(tokens / cycles - case["tokens_per_cycle"]) < Fraction(2, cycles)
    assert abs(after_1 / cycles - case["share_of_roots"][1]) < Fraction(2, cycles)
    assert abs(positions_1 / cycles - case["share_of_positions"][1]) < Fraction(2, cycles)
    assert abs(tokens / cycles - case["mean_over_positions"]) > Fraction(2, cycles)
    return {"cycles": cycles}
