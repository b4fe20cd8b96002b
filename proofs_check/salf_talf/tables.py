"""SALF & TALF, Tables 1 and 2: whether they agree with each other and with the text."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from proofs_check.claims import Case, Finding, claim, every, second
from proofs_check.printed import ROUNDED, is_mean, table

TABLE_1 = table("salf_talf_1", 3)
"""Speedups by model, temperature and method: five benchmarks and their mean."""
TABLE_2 = table("salf_talf_2", 2)
"""Speedup and mean generation length (tau) for Deepseek at temperature 0, by tree construction and loss."""
SEARCHES = ("beam", "optimal")
LOSSES = ("EAGLE-2", "HASS", "TALF")
STATED = ("2.16", "3.48")
"""End-to-end speedups `in various tasks`, Section 1."""


def speedups(tree: str, loss: str) -> list[str]:
    """The speedups in a row of Table 2, the mean last."""
    return TABLE_2.entries(tree, loss, of="speedup")


@claim("S-TABLES")
def tables(effort: int) -> Finding:
    ours = [name for name in TABLE_1.text if name[2] == "SALF & TALF"]
    everything = [
        (Decimal(one), name, at)
        for name in ours
        for at, one in zip(TABLE_1.columns, TABLE_1.entries(*name), strict=True)
    ]
    low, high = min(everything), max(everything)
    if high[0] != Decimal(STATED[1]) or low[0] >= Decimal(STATED[0]):
        raise ArithmeticError("the stated range of speedups should be wrong, but the table agrees with it")
    baselines = {loss: TABLE_1.entries("Deepseek", "0", loss) for loss in LOSSES[:2]}
    every(baselines, lambda loss: baselines[loss] == speedups("optimal", loss) != speedups("beam", loss))
    talf = Fraction(speedups("SALF", "TALF")[-1])
    gains = {
        f"{tree} {loss}": f"{float(100 * (talf / Fraction(speedups(tree, loss)[-1]) - 1)):.1f}"
        for tree, loss in product(SEARCHES[::-1], LOSSES[:2])
    }
    below = sum(one < Decimal(STATED[0]) for one, _, benchmark in everything if benchmark != "Mean")
    return Finding(
        {"below": below, "low": low[0], "high": high[0], "gains": gains},
        {
            "stated_range": STATED,
            "least": f"{low[0]} ({low[1][0]}, temperature {low[1][1]}, {low[2]})",
            "table_1_EAGLE_2": " ".join(baselines["EAGLE-2"]),
            "table_2_beam": " ".join(speedups("beam", "EAGLE-2")),
            "table_2_optimal": " ".join(speedups("optimal", "EAGLE-2")),
            "gain_percent": gains,
        },
        cases={
            "speedup": (
                {"speedup": Fraction(one), "least_told": Fraction(STATED[0]), "most_told": Fraction(STATED[1])}
                for one, _, _ in everything
            ),
            "baseline": (
                {"Table_1": row, "beam_search": speedups("beam", loss), "optimal_search": speedups("optimal", loss)}
                for loss, row in baselines.items()
            ),
        },
    )


@second("S-TABLES")
def _(case: Case) -> dict[str, Any]:
    taus = [TABLE_2.row(*name, of="tau") for name in TABLE_2.text]
    faster = [TABLE_2.row(*name, of="speedup") for name in TABLE_2.text] + [TABLE_1.row(*name) for name in TABLE_1.text]
    assert all(is_mean(row[:5], row[5]) for row in taus)
    assert all((row[5] - ROUNDED) ** 5 <= prod(row[:5]) <= (row[5] + ROUNDED) ** 5 for row in faster)
    return {"speedups": len(faster), "lengths": len(taus)}
