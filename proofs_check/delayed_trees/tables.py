"""Tables 2 to 15: whether they follow from the stated grids and theorems."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.claims import Case, Finding, claim, second
from proofs_check.printed import below, decimals, is_mean, table

AVERAGES, BY_DATASET, BY_SETTING = (table(f"delayed_trees_{part}", 2) for part in ("2_to_7", "8_and_9", "10_to_15"))
"""`NDE` is the neural selector's delayed expansion."""
MODELS = AVERAGES.columns[:3]
BLOCK_EFFICIENCY = (11, 13, 15)
"""The numbers of the tables of block efficiency by sampling setting, one table per model."""
MEASURES = (((10, 12, 14), 3, 8), (BLOCK_EFFICIENCY, 2, 9))
"""Throughput and block efficiency: tables by sampling setting, the table of averages, and the table by dataset."""
TREES_OF_ONE = ("NaiveTree", "SpecTr", "SpecInfer", "Khisti")
"""Rules that equal Naive at K = 1; each row is the best of a grid that includes K = 1."""


def row(number: int, method: str, of: str = "") -> list[Fraction]:
    """A method's row of the table of this number."""
    found = next(one for one in (AVERAGES, BY_DATASET, BY_SETTING) if one.names(str(number)))
    return found.row(str(number), method, of=of)


def lower(number: int, one: str, other: str) -> list[int]:
    """Columns in which one row is below another by more than rounding."""
    return below(row(number, one), row(number, other))


@claim("D-TABLES")
def tables(effort: int) -> Finding:
    gemma = {name: [row(number, name)[1] for number in (2, 3)] for name in (*TREES_OF_ONE, "Naive")}
    by_cell = [
        {"BV": bv, "Naive": naive}
        for number in BLOCK_EFFICIENCY
        for bv, naive in zip(row(number, "BV"), row(number, "Naive"), strict=True)
    ]
    margins = [cell["Naive"] - cell["BV"] for cell in by_cell]

    def among(at: int) -> list[str]:
        """Smallest and largest value of TREES_OF_ONE on Gemma in Table 2 or 3, then the value of Naive."""
        values = [gemma[name][at] for name in TREES_OF_ONE]
        return [*map(decimals, (min(values), max(values), gemma["Naive"][at]))]

    def follows(method: str) -> bool:
        """Whether the row of Table 2 is the averages of the method's rows in Tables 11, 13 and 15."""
        return all(is_mean(row(n, method), one) for n, one in zip(BLOCK_EFFICIENCY, row(2, method), strict=False))

    return Finding(
        {
            "impossible": ", ".join(n for n in TREES_OF_ONE if all(1 in lower(t, n, "Naive") for t in (2, 3))),
            "efficiency": among(0),
            "speed": among(1),
            "everywhere": sum(lower(13, name, "Naive") == list(range(8)) for name in TREES_OF_ONE),
            "single": ", ".join(MODELS[at] for at in lower(2, "BV", "Naive") if at < 3),
            "cells": len(by_cell),
            "least": decimals(min(margins)),
            "most": decimals(max(margins)),
        },
        {
            "gemma_block_efficiency_and_tokens_per_second": gemma,
            "block_efficiency_bv": row(2, "BV")[:3],
            "block_efficiency_naive": row(2, "Naive")[:3],
        },
        cases={
            "row": ({"rule": gemma[n][at], "Naive": gemma["Naive"][at]} for n in TREES_OF_ONE for at in (0, 1)),
            "cell": by_cell,
            "average": ({"close": follows(name)} for name in (*TREES_OF_ONE, "Naive")),
        },
    )


@second("D-TABLES")
def tables_again(case: Case) -> None:
    """Second check: the averages, and Table 9."""
    for name in (*TREES_OF_ONE, "Naive", "BV"):
        assert_averages(name)
    assert all(len(below(*(row(9, name, "Gemma") for name in (one, "Naive")))) == 4 for one in TREES_OF_ONE)


def assert_averages(method: str, suffix: str = "", averages: tuple[int, int] = (3, 2)) -> None:
    """The rows by dataset and by setting have the printed averages, all within the rounding of both."""
    for (by_setting, _, by_dataset), number in zip(MEASURES, averages, strict=True):
        printed = row(number, method)
        assert is_mean(printed[:3], printed[3])
        for model, at, one in zip(MODELS, by_setting, printed[:3], strict=True):
            assert is_mean(row(at, method + suffix), one)
            assert is_mean(row(by_dataset, method + suffix, model), one)
