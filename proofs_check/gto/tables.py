"""GTO, Table 1: what the text says of it."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

from proofs_check.claims import Finding, claim, every, second
from proofs_check.printed import ROUNDED, decimals, is_ratio, mean, numbers, rounds_to

MODELS = ("LLaMA-3.1-8B", "Vicuna-1.3-13B", "DeepSeek-R1-8B", "LLaMA-3.3-70B")
"""Their names are lost from the table; the percentages of Section 4.1 tell the first three."""
COLUMNS = ("MT-bench", "HumanEval", "GSM8K", "Average")
TABLE_1 = {
    "LLaMA-3.1-8B": {
        "EAGLE": "1.73 2.97 2.43 3.26 2.04 3.06 2.07 3.10 1.62 2.39 1.97 3.08 1.92 2.89 1.84 2.79",
        "EAGLE-2": "2.52 4.02 3.31 4.70 2.83 4.21 2.89 4.31 2.04 3.13 2.62 4.37 2.37 3.71 2.34 3.74",
        "GRIFFIN": "2.95 4.68 3.73 5.90 3.15 5.16 3.28 5.25 2.29 3.90 3.24 5.39 2.66 4.67 2.73 4.65",
        "EAGLE-3": "3.27 5.77 3.68 6.41 3.41 6.02 3.46 6.07 2.37 4.51 3.07 5.73 2.88 5.37 2.77 5.20",
        "GTO": "3.44 6.15 4.17 6.95 3.59 6.47 3.73 6.52 2.49 4.70 3.17 5.92 3.02 5.75 2.89 5.46",
    },
    "Vicuna-1.3-13B": {
        "SPS": "1.91 2.24 2.18 2.52 1.74 2.00 1.94 2.25 1.59 1.81 1.73 1.99 1.47 1.75 1.60 1.85",
        "EAGLE": "2.81 3.67 3.23 4.12 2.74 3.62 2.93 3.80 2.14 3.06 2.48 3.46 2.35 3.37 2.32 3.30",
        "EAGLE2": "3.79 4.78 4.71 5.37 3.83 4.72 4.11 4.96 3.47 4.33 3.84 4.87 3.15 4.36 3.49 4.52",
        "EAGLE-3": "4.84 6.59 5.61 7.33 4.87 6.48 5.11 6.80 4.03 5.64 4.61 6.36 4.16 5.79 4.27 5.93",
        "GTO": "5.23 7.01 6.06 7.95 5.55 6.92 5.61 7.29 4.10 5.71 4.77 6.52 4.90 6.05 4.59 6.09",
    },
    "DeepSeek-R1-8B": {
        "GRIFFIN": "2.71 4.24 3.19 5.23 3.42 5.58 3.11 5.02 2.38 3.93 2.83 4.68 3.13 5.23 2.78 4.61",
        "EAGLE-3": "3.34 5.32 3.59 5.88 3.78 6.16 3.57 5.79 2.71 4.54 3.15 5.10 3.49 5.82 3.11 5.15",
        "GTO": "3.49 5.60 3.98 6.58 4.20 6.92 3.89 6.37 2.76 4.59 3.34 5.44 3.71 6.50 3.27 5.51",
    },
    "LLaMA-3.3-70B": {
        "EAGLE-3": "3.78 5.40 4.41 6.26 3.99 5.90 4.06 5.85 3.68 5.18 4.05 5.85 3.88 5.65 3.87 5.56",
        "GTO": "3.97 5.56 4.68 6.51 4.11 6.25 4.22 6.14 3.90 5.34 4.21 6.20 4.07 5.82 4.06 5.78",
    },
}
"""Speedup and acceptance length by column, at temperature 0, then 1. Left out: PLD, Lookahead, Medusa and Hydra, which
have numbers at temperature 0 only, all below EAGLE-3's."""
OTHERS = {
    "LLaMA-3.1-8B": ("1.53 1.61 1.69 1.73 1.79 1.85 1.67 1.73", "1.61 1.67 1.72 1.78 1.84 1.93 1.72 1.79"),
    "Vicuna-1.3-13B": ("1.99 2.48 2.37 2.74 2.18 2.61 2.18 2.61", "2.57 3.25 3.02 3.68 2.61 3.37 2.73 3.43"),
    "DeepSeek-R1-8B": ("1.34 1.42 1.53 1.62 1.48 1.54 1.45 1.53", "1.52 1.61 1.64 1.71 1.62 1.68 1.59 1.67"),
    "LLaMA-3.3-70B": ("1.43 1.51 1.58 1.67 1.52 1.61 1.51 1.60", "1.58 1.66 1.71 1.79 1.73 1.82 1.67 1.76"),
}
"""These, at temperature 0."""


def cell(model: str, method: str, temperature: int, column: int) -> tuple[Fraction, Fraction]:
    """Speedup and acceptance length; column 3 is the average."""
    row = numbers(TABLE_1[model][method])
    at = 8 * temperature + 2 * column
    return row[at], row[at + 1]


def beaten() -> list[tuple[int, str, str, int, int]]:
    """(0 for the speedup, 1 for the length; model, rival, temperature, column) where GTO is not ahead."""
    return [
        (measure, model, rival, temperature, column)
        for model in MODELS
        for rival, temperature, column, measure in product(TABLE_1[model], (0, 1), range(4), (0, 1))
        if rival != "GTO"
        and cell(model, "GTO", temperature, column)[measure] <= cell(model, rival, temperature, column)[measure]
    ]


@claim("T-TABLES")
def tables(effort: int) -> Finding:
    lost = beaten()
    if [(measure, rival) for measure, _, rival, _, _ in lost] != [(0, "GRIFFIN")]:
        raise ArithmeticError("GTO is beaten elsewhere")
    _, model, rival, temperature, column = lost[0]
    every(
        ((m, row, at) for m in MODELS for row in OTHERS[m] for at in range(8)),
        lambda c: numbers(c[1])[c[2]] < numbers(TABLE_1[c[0]]["EAGLE-3"])[c[2]],
    )
    averages = {(m, t): cell(m, "GTO", t, 3)[1] for m in MODELS for t in (0, 1)}
    short = {f"{m}, T = {t}": decimals(length) for (m, t), length in averages.items() if length < 6}
    every(averages.values(), lambda length: 5 <= length < 8)
    every(product(MODELS, (0, 1)), lambda c: 5 <= cell(c[0], "EAGLE-3", c[1], 3)[1] < 7)
    gains = [
        sum(cell(m, "GTO", t, 3)[0] for m in MODELS) / sum(cell(m, "EAGLE-3", t, 3)[0] for m in MODELS) - 1
        for t in (0, 1)
    ]
    every(zip(gains, ("0.077", "0.056"), strict=True), lambda c: abs(c[0] - Fraction(c[1])) <= Fraction(1, 2000))
    own = [mean([cell(MODELS[3], "GTO", 0, c)[measure] for c in range(3)]) for measure in (0, 1)]
    printed = [decimals(value) for value in cell(MODELS[3], "GTO", 0, 3)]
    if any(rounds_to(value, Fraction(given), slack=ROUNDED) for value, given in zip(own, printed, strict=True)):
        raise ArithmeticError("the averages are right")
    cells = 2 * sum(len(rows) - 1 for rows in TABLE_1.values()) * 8 + 8 * 8
    return Finding(
        "corrected",
        {
            "cells": cells,
            "model": model,
            "temperature": temperature,
            "column": COLUMNS[column],
            "rival": rival,
            "short_rows": len(short),
            "gains": gains,
            "large_model": MODELS[3],
            "own": [*map(decimals, own)],
            "printed": " and ".join(printed),
        },
        {
            f"{model}, T = {temperature}, {COLUMNS[column]}, speedup": {
                name: decimals(cell(model, name, temperature, column)[0]) for name in ("GTO", rival)
            },
            "GTO_lengths_below_6": short,
            f"{MODELS[3]}, T = 0": {"averages_printed": printed, "averages": [decimals(x) for x in own]},
        },
    )


@second("T-TABLES")
def tables_again(finding: Finding) -> dict[str, Any]:
    """Averages of the rows, a row that Tables 3 to 5 repeat, and percentages of the text, in whole hundredths."""
    rows = {
        (m, name): [int(x.replace(".", "")) for x in text.split()] for m in MODELS for name, text in TABLE_1[m].items()
    }
    wrong = []
    for key, row in rows.items():
        for at in (0, 1, 8, 9):
            if abs(row[at] + row[at + 2] + row[at + 4] - 3 * row[at + 6]) > 3:
                wrong.append((key, at, row[at + 6]))
    assert wrong == [((MODELS[3], "GTO"), 0, 422), ((MODELS[3], "GTO"), 1, 614)]
    repeated = "3.44 6.15 4.17 6.95 3.59 6.47 3.73 6.52 2.49 4.70 3.17 5.92 3.02 5.75 2.89 5.46"
    assert TABLE_1["LLaMA-3.1-8B"]["GTO"] == repeated
    told = {
        (MODELS[0], 0): "1.052",
        (MODELS[0], 2): "1.133",
        (MODELS[0], 8): "1.051",
        (MODELS[0], 10): "1.033",
        (MODELS[1], 0): "1.081",
        (MODELS[1], 8): "1.017",
        (MODELS[2], 2): "1.109",
        (MODELS[2], 4): "1.111",
        (MODELS[2], 10): "1.060",
        (MODELS[2], 12): "1.063",
    }
    for (model, at), ratio in told.items():
        new, old = (Fraction(rows[model, name][at], 100) for name in ("GTO", "EAGLE-3"))
        assert is_ratio(new, old, Fraction(ratio), Fraction(1, 1000))
    assert rows[MODELS[0], "GTO"][10] == 317 < rows[MODELS[0], "GRIFFIN"][10] == 324
    assert sum(rows[m, "GTO"][at] < 600 for m in MODELS for at in (7, 15)) == len(finding.case["GTO_lengths_below_6"])
    return {"rows_held": len(rows), "rows_told": len(told)}
