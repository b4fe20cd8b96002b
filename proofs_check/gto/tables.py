"""GTO, Table 1: what the text says about it."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

from proofs_check.claims import Case, Finding, claim, every, second
from proofs_check.printed import decimals, is_mean, is_ratio, mean, rounds_to, table

TABLE_1 = table("gto_1", 2)
"""Speedup and acceptance length by benchmark and temperature. The table lost the names of the models; the
percentages of Section 4.1 tell the first three."""
MODELS = ("LLaMA-3.1-8B", "Vicuna-1.3-13B", "DeepSeek-R1-8B", "LLaMA-3.3-70B")
TOLD = {
    (MODELS[0], 0): ("1.052", "1.133", None),
    (MODELS[0], 1): ("1.051", "1.033", None),
    (MODELS[1], 0): ("1.081", None, None),
    (MODELS[1], 1): ("1.017", None, None),
    (MODELS[2], 0): (None, "1.109", "1.111"),
    (MODELS[2], 1): (None, "1.060", "1.063"),
}
"""GTO's speedups over EAGLE-3's, Section 4.1, by model and temperature: MT-bench, HumanEval, GSM8K."""


def numbers(model: str, method: str, of: str, temperature: int) -> list[Fraction]:
    """The speedups or lengths of the three benchmarks, then their average."""
    return TABLE_1.row(model, method, of=f"{of} at T = {temperature}")


def beaten() -> list[tuple[str, str, str]]:
    """(model, rival, column) where GTO is not ahead; nothing is printed for some rivals at T = 1."""
    return [
        (model, rival, column)
        for model, rival in TABLE_1.text
        if rival != "GTO"
        for column in TABLE_1.columns
        if TABLE_1.row(model, "GTO", of=column) <= TABLE_1.row(model, rival, of=column)
    ]


@claim("T-TABLES")
def tables(effort: int) -> Finding:
    lost = beaten()
    if len(lost) != 1 or lost[0][1:] != ("GRIFFIN", "HumanEval speedup at T = 1"):
        raise ArithmeticError("GRIFFIN in HumanEval speedup at T = 1 is not the only entry that GTO does not beat")
    ((model, rival, column),) = lost
    settings = list(product(MODELS, (0, 1)))
    averages = {(m, t): numbers(m, "GTO", "length", t)[3] for m, t in settings}
    short = {f"{m}, T = {t}": decimals(length) for (m, t), length in averages.items() if length < 6}
    every(averages.values(), lambda length: 5 <= length < 8)
    every(settings, lambda model, t: 5 <= numbers(model, "EAGLE-3", "length", t)[3] < 7)
    rivals = [numbers(model, "EAGLE-3", "length", t)[3] for model, t in settings]
    totals = [[mean(numbers(m, x, "speedup", t)[3] for m in MODELS) for x in ("GTO", "EAGLE-3")] for t in (0, 1)]
    gains = [ours / theirs - 1 for ours, theirs in totals]
    every(
        zip(gains, ("0.077", "0.056"), strict=True),
        lambda gain, told: rounds_to(gain, Fraction(told), Fraction(1, 1000)),
    )
    last = [numbers(MODELS[3], "GTO", of, 0) for of in ("speedup", "length")]
    if any(is_mean(row[:3], row[3]) for row in last):
        raise ArithmeticError("an average that should be wrong is right")
    own, printed = [decimals(mean(row[:3])) for row in last], [decimals(row[3]) for row in last]
    cells = sum(len(TABLE_1.entries(*name)) for name in TABLE_1.text if name[1] != "GTO")
    return Finding(
        {
            "cells": cells,
            "ours": f"{decimals(min(averages.values()))} to {decimals(max(averages.values()))}",
            "theirs": f"{decimals(min(rivals))} to {decimals(max(rivals))}",
            "model": model,
            "column": column,
            "rival": rival,
            "short_rows": len(short),
            "gains": gains,
            "large_model": MODELS[3],
            "own": " and ".join(own),
            "printed": " and ".join(printed),
        },
        {
            f"{model}, {column}": {name: TABLE_1.entries(model, name, of=column)[0] for name in ("GTO", rival)},
            "GTO_lengths_below_6": short,
            f"{MODELS[3]}, T = 0": {"averages_printed": printed, "averages": own},
        },
        cases={
            "cell": (
                {"speedup": "speedup" in at, "GTO": ours, "rival": theirs}
                for model, rival in TABLE_1.text
                if rival != "GTO"
                for at in TABLE_1.columns
                for ours, theirs in zip(
                    TABLE_1.row(model, "GTO", of=at), TABLE_1.row(model, rival, of=at), strict=False
                )
            ),
            "average": ({"length": length} for length in averages.values()),
        },
    )


@second("T-TABLES")
def _(case: Case) -> dict[str, Any]:
    rows = [
        ((model, name, of, t), row)
        for model, name in TABLE_1.text
        for of, t in product(("speedup", "length"), (0, 1))
        if (row := numbers(model, name, of, t))
    ]
    wrong = [name for name, row in rows if not is_mean(row[:3], row[3])]
    assert wrong == [(MODELS[3], "GTO", of, 0) for of in ("speedup", "length")]
    told = 0
    for (model, temperature), printed in TOLD.items():
        new, old = (numbers(model, name, "speedup", temperature)[:3] for name in ("GTO", "EAGLE-3"))
        pairs = [(a, b, Fraction(x)) for a, b, x in zip(new, old, printed, strict=True) if x]
        assert all(is_ratio(*pair, Fraction(1, 1000)) for pair in pairs)
        told += len(pairs)
    return {"rows": len(TABLE_1.text), "told": told}
