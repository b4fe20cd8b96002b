"""SALF & TALF, Tables 1 and 2: whether they agree with each other and with the text."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import prod

from proofs_check.printed import ROUNDED, is_mean, is_ratio, mean, table
from proofs_check.verdict import Verdict, claim, every, second

TABLE_1 = table("salf_talf_1", 3)
"""Speedups by model, temperature and method: five benchmarks and their mean."""
TABLE_2 = table("salf_talf_2", 2)
"""Speedup and mean generation length (tau) for Deepseek at temperature 0, by tree construction and loss."""
SEARCHES = ("beam", "optimal")
LOSSES = ("EAGLE-2", "HASS", "TALF")
TALF_GAINS = {"beam": ("12.9", "7.2"), "optimal": ("11.8", "7.3"), "SALF": ("11.7", "3.5")}
"""Percent of tau over EAGLE-2 and over HASS, Section 4.3."""
SALF_GAINS = {"tau": ("-6.2", "-2.4", "-6.3"), "speedup": ("18.6", "17.9", "14.4")}
"""Percent by which SALF changes optimal search, loss by loss, Section 4.3."""
STATED = ("2.16", "3.48")
"""End-to-end speedups `in various tasks`, Section 1."""


def speedups(tree: str, loss: str) -> list[str]:
    """A row of Table 2, the mean last."""
    return TABLE_2.entries(tree, loss, of="speedup")


@claim("S-TABLES", source="SALF & TALF, Sections 1 and 4, Tables 1 and 2")
def tables(effort: int) -> Verdict:
    """Tables 1 and 2 agree with each other and the text: speedups of 2.16 to 3.48, baselines with beam search.

    Section 4.1: `we set N = 60, k = 10, depth = 7 for beam search (used in EAGLE-2 and HASS)`, and the gains over both
    are those of Table 1. The numbers are copied from the paper; they are what is checked, by equality.
    """
    ours = [name for name in TABLE_1.text if name[2] == "SALF & TALF"]
    everything = [
        (Decimal(one), name, at)
        for name in ours
        for at, one in zip(TABLE_1.columns, TABLE_1.entries(*name), strict=True)
    ]
    low, high = min(everything), max(everything)
    if high[0] != Decimal(STATED[1]) or low[0] >= Decimal(STATED[0]):
        raise ArithmeticError("the speedups are as stated")
    baselines = {loss: TABLE_1.entries("Deepseek", "0", loss) for loss in LOSSES[:2]}
    every(baselines, lambda loss: baselines[loss] == speedups("optimal", loss) != speedups("beam", loss))
    talf = Fraction(speedups("SALF", "TALF")[-1])
    gains = {
        f"{tree} {loss}": f"{float(100 * (talf / Fraction(speedups(tree, loss)[-1]) - 1)):.1f}"
        for tree, loss in product(SEARCHES[::-1], LOSSES[:2])
    }
    below = sum(one < Decimal(STATED[0]) for one, _, benchmark in everything if benchmark != "Mean")
    return Verdict(
        "false",
        f"Table 1 has {below} speedups below 2.16, the least {low[0]}; 2.16 is in Table 2 the mean of TALF with "
        "optimal search, without SALF. The rows EAGLE-2 and HASS of Table 1 for Deepseek at temperature 0 are, number "
        "by number, the rows of Table 2 with optimal tree search, not those with beam search.",
        "equality and order of the printed decimals",
        {
            "stated_range": STATED,
            "least": f"{low[0]} ({low[1][0]}, temperature {low[1][1]}, {low[2]})",
            "table_1_EAGLE_2": " ".join(baselines["EAGLE-2"]),
            "table_2_beam": " ".join(speedups("beam", "EAGLE-2")),
            "table_2_optimal": " ".join(speedups("optimal", "EAGLE-2")),
            "gain_percent": gains,
        },
        f"By Table 1 the speedups are {low[0]} to {high[0]}. By Table 2 the mean gain for Deepseek at temperature 0 is "
        f"{gains['beam EAGLE-2']} % over EAGLE-2 and {gains['beam HASS']} % over HASS with their own beam search; the "
        f"printed {gains['optimal EAGLE-2']} % and {gains['optimal HASS']} % are over both with optimal tree search.",
    )


@second("S-TABLES")
def _(verdict: Verdict) -> str:
    taus = [TABLE_2.row(*name, of="tau") for name in TABLE_2.text]
    faster = [TABLE_2.row(*name, of="speedup") for name in TABLE_2.text] + [TABLE_1.row(*name) for name in TABLE_1.text]
    assert all(is_mean(row[:5], row[5]) for row in taus)
    assert all((row[5] - ROUNDED) ** 5 <= prod(row[:5]) <= (row[5] + ROUNDED) ** 5 for row in faster)
    return (
        f"in all {len(faster)} rows of speedups the printed mean is the geometric mean of the five benchmarks, in all "
        f"{len(taus)} rows of lengths the arithmetic mean, so no row has a slip."
    )


@claim("S-TAB-TEXT", source="SALF & TALF, Section 4.3, Table 2")
def told(effort: int) -> Verdict:
    """By Table 2 TALF improves the mean generation length by 12.9, 11.8 and 11.7% over EAGLE-2 and by 7.2, 7.3 and 3.5%
    over HASS, under beam, optimal and SALF search; SALF added to optimal search has it fall by 6.2, 2.4 and 6.3% and
    the speedup rise by 18.6, 17.9 and 14.4%, for EAGLE-2, HASS and TALF; optimal search has it longer than beam search
    for every loss and benchmark.

    The numbers of Table 2 stand anywhere within their rounding. Mean lengths are the printed ones, or those of the five
    benchmarks as printed.
    """
    tenth = Fraction(1, 1000)

    def gains(case: tuple[str, tuple[str, str], tuple[str, str], str]) -> bool:
        """Whether one row of Table 2 is over another, in its mean or that of its benchmarks, by so many percent."""
        of, new, old, percent = case
        ours, theirs = TABLE_2.row(*new, of=of), TABLE_2.row(*old, of=of)
        printed = 1 + Fraction(percent) / 100
        by_mean = is_ratio(ours[5], theirs[5], printed, tenth)
        return by_mean or (of == "tau" and is_ratio(mean(ours[:5]), mean(theirs[:5]), printed, tenth))

    count = every(
        (
            ("tau", (tree, "TALF"), (tree, loss), percent)
            for tree, both in TALF_GAINS.items()
            for loss, percent in zip(LOSSES[:2], both, strict=True)
        ),
        gains,
    )
    count += every(
        (
            (of, ("SALF", loss), ("optimal", loss), percent)
            for of, each in SALF_GAINS.items()
            for loss, percent in zip(LOSSES, each, strict=True)
        ),
        gains,
    )
    pairs = every(
        (pair for loss in LOSSES for pair in zip(*(TABLE_2.row(t, loss, of="tau") for t in SEARCHES), strict=True)),
        lambda taus: taus[0] < taus[1],
    )
    return Verdict(
        "holds",
        f"All {count} percentages follow, and optimal search is longer in all {pairs} pairs, means included.",
        "exact comparison of the printed decimals, with intervals for their rounding",
    )
