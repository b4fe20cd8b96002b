"""OPT-Tree, Tables 1 and 3."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.claims import Case, Finding, claim, second
from proofs_check.printed import are_ratios, decimals, mean, table

TABLE = table("opt_tree_1_and_3", 3)
"""OPT-Tree on MT-Bench at temperatures 0 (Table 1) and 1 (Table 3), and decoding without drafts."""
PAIRS = [name[1:] for name in TABLE.names("1")]


def alone(target: str) -> str:
    """Tokens per second without drafts, as Table 1 prints them."""
    return TABLE.entries("0", target, "none", of="tokens")[0]


def higher(of: str) -> dict[str, list[str]]:
    """The pairs of models whose number is higher at temperature 1 than at 0, with both numbers."""
    both = {pair: [TABLE.entries(t, *pair, of=of)[0] for t in "01"] for pair in PAIRS}
    return {" with ".join(pair): values for pair, values in both.items() if Fraction(values[1]) > Fraction(values[0])}


def is_speedup(temperature: str, target: str, draft: str) -> bool:
    """Whether the printed speedup is the tokens per second over the tokens per second without drafts."""
    _, tokens, speedup = TABLE.row(temperature, target, draft)
    return are_ratios([tokens], [Fraction(alone(target))], [speedup])


@claim("O-TABLES")
def tables(effort: int) -> Finding:
    lengths, speedups = higher("length"), higher("speedup")
    odd = [pair for pair in PAIRS if not is_speedup("1", *pair)]
    if len(odd) != 1 or not lengths:
        raise ArithmeticError("the tables should have one wrong speedup, and a length that is higher at temperature 1")
    taus = [[TABLE.row(t, *pair)[0] for pair in PAIRS] for t in "01"]
    fell = max(1 - one / zero for zero, one in zip(*taus, strict=True))
    averages = [mean(each) for each in taus]
    ((target, draft),) = odd
    _, tokens, speedup = TABLE.entries("1", target, draft)
    own = Fraction(tokens) / Fraction(alone(target))
    return Finding(
        {
            "longer": len(lengths),
            "faster": len(speedups),
            "fell": fell,
            "averages": averages,
            "drop": 1 - averages[1] / averages[0],
            "shorter": len(PAIRS) - len(lengths),
            "slower": len(PAIRS) - len(speedups),
            "pairs": len(PAIRS),
            "target": target,
            "draft": draft,
            "tokens": tokens,
            "alone": alone(target),
            "own": decimals(own),
            "speedup": speedup,
        },
        {
            "longer_at_temperature_1": lengths,
            "faster_at_temperature_1": speedups,
            f"{target} with {draft}": {"speedup_printed": speedup, "of_tokens_per_second": decimals(own)},
        },
        cases={
            "pair": (
                {
                    f"{of}_at_{temperature}": TABLE.row(temperature, *one, of=of)[0]
                    for of in ("length", "speedup")
                    for temperature in "01"
                }
                for one in PAIRS
            ),
            "average": [
                {
                    f"{of}_at_{temperature}": mean(TABLE.row(temperature, *one, of=of)[0] for one in PAIRS)
                    for of in ("length", "speedup")
                    for temperature in "01"
                }
            ],
        },
    )


@second("O-TABLES")
def _(case: Case) -> None:
    assert all(is_speedup("0", *pair) for pair in PAIRS)
