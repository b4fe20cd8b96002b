"""SALF & TALF, Tables 1 and 2: whether they agree with each other and with the text."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from proofs_check.claims import Case, Finding, claim, second
from proofs_check.printed import ROUNDED, is_mean, table

TABLE_1 = table("salf_talf_1", 3)
"""Speedups by model, temperature and method: five benchmarks and their mean."""
TABLE_2 = table("salf_talf_2", 2)
"""Speedup and mean generation length (tau) for Deepseek at temperature 0, by tree construction and loss."""
STATED = ("2.16", "3.48")
"""End-to-end speedups `in various tasks`, Section 1."""


def speedups(tree: str, loss: str) -> list[str]:
    """The speedups in a row of Table 2, the mean last."""
    return TABLE_2.entries(tree, loss, of="speedup")


@claim("S-TABLES")
def tables(effort: int) -> Finding:
    ours = [
        (Decimal(entry), f"{entry} ({name[0]}, temperature {name[1]}, {at})", at)
        for name in TABLE_1.text
        if name[2] == "SALF & TALF"
        for at, entry in zip(TABLE_1.columns, TABLE_1.entries(*name), strict=True)
    ]
    baselines = {loss: TABLE_1.entries("Deepseek", "0", loss) for loss in ("EAGLE-2", "HASS")}
    talf = Fraction(speedups("SALF", "TALF")[-1])
    gains = {
        f"{tree} {loss}": f"{float(100 * (talf / Fraction(speedups(tree, loss)[-1]) - 1)):.1f}"
        for tree, loss in product(("optimal", "beam"), baselines)
    }
    by_loss = [
        {"Table_1": row, "beam_search": speedups("beam", loss), "optimal_search": speedups("optimal", loss)}
        for loss, row in baselines.items()
    ]
    least, most = map(Fraction, STATED)
    return Finding(
        {"below": sum(one < least and at != "Mean" for one, _, at in ours), "gains": gains}
        | {"low": min(ours)[0], "high": max(ours)[0]},
        {"stated_range": STATED, "least": min(ours)[1], "baselines": by_loss, "gain_percent": gains},
        cases={
            "speedup": ({"speedup": one, "least_told": least, "most_told": most} for one, _, _ in ours),
            "baseline": by_loss,
        },
    )


@second("S-TABLES")
def _(case: Case) -> dict[str, Any]:
    taus = [TABLE_2.row(*name, of="tau") for name in TABLE_2.text]
    faster = [TABLE_2.row(*name, of="speedup") for name in TABLE_2.text] + [TABLE_1.row(*name) for name in TABLE_1.text]
    assert all(is_mean(row[:5], row[5]) for row in taus)
    assert all((row[5] - ROUNDED) ** 5 <= prod(row[:5]) <= (row[5] + ROUNDED) ** 5 for row in faster)
    return {"speedups": len(faster), "lengths": len(taus)}
