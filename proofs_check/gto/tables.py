"""GTO, Table 1: what the text says about it."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

from proofs_check.claims import Case, Finding, claim, second
from proofs_check.printed import decimals, is_mean, table

TABLE_1 = table("gto_1", 2)
"""Speedup and acceptance length by benchmark and temperature; the average of the three benchmarks comes last."""
MODELS = ("LLaMA-3.1-8B", "Vicuna-1.3-13B", "DeepSeek-R1-8B", "LLaMA-3.3-70B")


def numbers(model: str, method: str, of: str, temperature: int) -> list[Fraction]:
    """The speedups or lengths of the three benchmarks, then their average."""
    return TABLE_1.row(model, method, of=f"{of} at T = {temperature}")


@claim("T-TABLES")
def tables(effort: int) -> Finding:
    cells = [
        ((model, rival, at), ours, theirs)
        for model, rival in TABLE_1.text
        if rival != "GTO"
        for at in TABLE_1.columns
        for ours, theirs in zip(TABLE_1.row(model, "GTO", of=at), TABLE_1.row(model, rival, of=at), strict=False)
    ]  # nothing is printed for some rivals at T = 1
    (((model, rival, column), *pair),) = (one for one in cells if one[1] <= one[2])
    settings = [*product(MODELS, (0, 1))]
    ours, theirs = ([numbers(m, name, "length", t)[3] for m, t in settings] for name in ("GTO", "EAGLE-3"))
    short = {f"{m}, T = {t}": decimals(length) for (m, t), length in zip(settings, ours, strict=True) if length < 6}
    return Finding(
        {"cells": len(cells), "model": model, "column": column, "rival": rival, "short_rows": len(short)}
        | {
            name: f"{decimals(min(lengths))} to {decimals(max(lengths))}"
            for name, lengths in (("ours", ours), ("theirs", theirs))
        },
        {f"{model}, {column}": dict(zip(("GTO", rival), pair, strict=True)), "GTO_lengths_below_6": short},
        cases={
            "cell": ({"speedup": "speedup" in at, "GTO": one, "rival": other} for (_, _, at), one, other in cells),
            "average": ({"length": length} for length in ours),
        },
    )


@second("T-TABLES")
def tables_again(case: Case) -> dict[str, Any]:
    """Second check: all averages but two are those of their benchmarks."""
    rows = [
        ((model, name, of, t), row)
        for model, name in TABLE_1.text
        for of, t in product(("speedup", "length"), (0, 1))
        if (row := numbers(model, name, of, t))
    ]
    wrong = [name for name, row in rows if not is_mean(row[:3], row[3])]
    assert wrong == [(MODELS[3], "GTO", of, 0) for of in ("speedup", "length")]
    return {"rows": len(TABLE_1.text), "large_model": MODELS[3]}
