"""Which contexts stand for those of decoding: the roots of its own cycles."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.delayed_trees.cycles import arrays, played
from proofs_check.delayed_trees.decoders import Decoder, Policy, decoders, values
from proofs_check.plays import ZERO
from proofs_check.small_drafts import Law
from proofs_check.verdict import Verdict, claim, every, second, smallest


@claim("D-ROOTS", source="Delayed tree expansion, Section 6 and Eq. (9)", stated=False)
def equally_spaced_roots(effort: int) -> Verdict:
    """Contexts at equal spacing along target texts (a root every 16 tokens) stand for the contexts of decoding.

    Read: the mean of E[tau + 1 | c, a] over positions of target texts is the number of tokens per cycle when each cycle
    takes action a. One drafted token, verified by Naive.
    """
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
    return Verdict(
        "false",
        "Cycles do not stop at equal distances: they stop after rejections, at contexts that differ from the average "
        f"position. Over the roots of its own cycles the mean is right ({count:,} comparisons); over positions it is "
        "where the roots are spread as the positions are.",
        "small decoders played whole, stationary laws in fractions, smallest laws first",
        {
            **decoder.shown(),
            "share_of_positions": positions(decoder),
            "share_of_roots": decoder.roots(always),
            "mean_over_positions": by_position(decoder),
            "tokens_per_cycle": per_cycle(decoder),
        },
        "Tokens per cycle are the mean of E[tau + 1 | c, a] over the roots of the policy's own cycles (1 over the "
        "share of positions that are roots). Estimate it on roots recorded while decoding, or weight positions by "
        "how often they are roots.",
    )


@second("D-ROOTS")
def _(verdict: Verdict) -> str:
    case = verdict.counterexample or {}
    p, q, cycles = arrays(case["p_behind_each_token"]), arrays(case["q_behind_each_token"]), 80
    tokens, behind_1 = played(p, q, (1, 1), cycles)
    plain, positions_1 = played(p, q, (0, 0), cycles)
    assert plain == cycles
    assert abs(tokens / cycles - case["tokens_per_cycle"]) < Fraction(2, cycles)
    assert abs(behind_1 / cycles - case["share_of_roots"][1]) < Fraction(2, cycles)
    assert abs(positions_1 / cycles - case["share_of_positions"][1]) < Fraction(2, cycles)
    assert abs(tokens / cycles - case["mean_over_positions"]) > Fraction(2, cycles)
    return f"stationary laws; {cycles} cycles of spectheory's Naive, and of plain decoding, in fractions."
