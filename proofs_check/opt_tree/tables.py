"""OPT-Tree, Tables 1 and 3."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.printed import are_ratios, decimals, mean, table
from proofs_check.verdict import Verdict, claim, second

TABLE = table("opt_tree_1_and_3", 3)
"""OPT-Tree on MT-Bench at temperatures 0 (Table 1) and 1 (Table 3), and decoding without drafts."""
PAIRS = [name[1:] for name in TABLE.names("1")]


def alone(target: str) -> str:
    """Tokens per second without drafts, as Table 1 prints them."""
    return TABLE.entries("0", target, "none", of="tokens")[0]


def higher(of: str) -> dict[str, list[str]]:
    """The pairs of models with a higher number at temperature 1 than at 0, and both."""
    both = {pair: [TABLE.entries(t, *pair, of=of)[0] for t in "01"] for pair in PAIRS}
    return {" with ".join(pair): values for pair, values in both.items() if Fraction(values[1]) > Fraction(values[0])}


def is_speedup(temperature: str, target: str, draft: str) -> bool:
    """Whether the printed speedup is tokens per second over those without drafts."""
    _, tokens, speedup = TABLE.row(temperature, target, draft)
    return are_ratios([tokens], [Fraction(alone(target))], [speedup])


@claim("O-TABLES", source="OPT-Tree, Section 4.5, Tables 1 and 3")
def tables(effort: int) -> Verdict:
    """By Table 3 "the mean acceptance length and the speedup ratio of speculative decoding with OPT-Tree are slightly
    lower when the temperature is set to 1 than when the temperature is set to 0".

    Read for each of the ten pairs of target and draft, on MT-Bench, OPT-Tree at temperature 0 as in Table 1. The
    speedup is tokens per second over those without drafts.
    """
    lengths, speedups = higher("length"), higher("speedup")
    odd = [pair for pair in PAIRS if not is_speedup("1", *pair)]
    if len(odd) != 1 or not lengths:
        raise ArithmeticError("the tables are others")
    taus = [[TABLE.row(t, *pair)[0] for pair in PAIRS] for t in "01"]
    fell = max(1 - one / zero for zero, one in zip(*taus, strict=True))
    averages = [mean(each) for each in taus]
    ((target, draft),) = odd
    _, tokens, speedup = TABLE.entries("1", target, draft)
    own = Fraction(tokens) / Fraction(alone(target))
    return Verdict(
        "corrected",
        f"At temperature 1 the length is higher in {len(lengths)} of 10 pairs, the speedup in {len(speedups)}. "
        f"Elsewhere the length falls by up to {float(fell):.0%}. The averages of the ten lengths are "
        f"{float(averages[0]):.2f} and {float(averages[1]):.2f}. Speedups of Table 3 are tokens per second over those "
        f"of Table 1 without drafts, but for {target} with {draft}: {tokens} / {alone(target)} is {decimals(own)}, "
        f"printed {speedup}.",
        "exact comparison of the printed decimals",
        {
            "longer_at_temperature_1": lengths,
            "faster_at_temperature_1": speedups,
            f"{target} with {draft}": {"speedup_printed": speedup, "of_tokens_per_second": decimals(own)},
        },
        f"Averaged over the ten pairs the length is lower at temperature 1, by "
        f"{float(1 - averages[1] / averages[0]):.0%}; pair by pair the length is lower in {10 - len(lengths)} of 10, "
        f"the speedup in {10 - len(speedups)}.",
    )


@second("O-TABLES")
def _(verdict: Verdict) -> str:
    assert all(is_speedup("0", *pair) for pair in PAIRS)
    return "each speedup of Table 1 is that of its tokens per second, so its rows have no slip."
