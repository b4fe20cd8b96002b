"""Which contexts stand for those of decoding: the roots of its own cycles."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from proofs_check.claims import Finding, claim, every, second, smallest
from proofs_check.delayed_trees.decoders import Decoder, Policy, decoders, values
from proofs_check.delayed_trees.library import played
from proofs_check.plays import ZERO
from proofs_check.small_drafts import Law


@claim("D-ROOTS")
def equally_spaced_roots(effort: int) -> Finding:
    always: Policy = (1, 1)

    def positions(decoder: Decoder) -> Law:
        return decoder.roots((0, 0)) or (ZERO, ZERO)  # plain decoding stops at every token

    def by_position(decoder: Decoder) -> Fraction:
        return sum((x * decoder.tokens(at, 1) for at, x in enumerate(positions(decoder))), ZERO)

    def per_cycle(decoder: Decoder) -> Fraction:
        return values(decoder)[always][0]

    def alike(decoder: Decoder) -> bool:
        roots = decoder.roots(always) or (ZERO, ZERO)
        return per_cycle(decoder) == sum((x * decoder.tokens(at, 1) for at, x in enumerate(roots)), ZERO)

    cases = [one for one in decoders(1 + effort) if one.draft == Fraction(1, 2)]
    decoder = smallest(cases, lambda one: by_position(one) != per_cycle(one))
    equal = [one for one in cases if one.roots(always) == positions(one)]
    count = every(cases, alike) + every(equal, lambda one: by_position(one) == per_cycle(one))
    return Finding(
        "false",
        {"count": count},
        {
            **decoder.shown(),
            "share_of_positions": positions(decoder),
            "share_of_roots": decoder.roots(always),
            "mean_over_positions": by_position(decoder),
            "tokens_per_cycle": per_cycle(decoder),
        },
    )


@second("D-ROOTS")
def _(finding: Finding) -> dict[str, Any]:
    case = finding.case
    pairs, cycles = list(zip(case["p_after_each_token"], case["q_after_each_token"], strict=True)), 80
    tokens, after_1 = played(pairs, (1, 1), cycles)
    plain, positions_1 = played(pairs, (0, 0), cycles)
    assert plain == cycles
    assert abs(tokens / cycles - case["tokens_per_cycle"]) < Fraction(2, cycles)
    assert abs(after_1 / cycles - case["share_of_roots"][1]) < Fraction(2, cycles)
    assert abs(positions_1 / cycles - case["share_of_positions"][1]) < Fraction(2, cycles)
    assert abs(tokens / cycles - case["mean_over_positions"]) > Fraction(2, cycles)
    return {"cycles": cycles}
