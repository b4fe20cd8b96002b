"""Tables 2 to 15: whether they follow from the stated grids and theorems, and what the text says about them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import spectheory as st
from proofs_check.claims import Case, Finding, claim, every, second
from proofs_check.delayed_trees.expansion import NAIVE, tokens_emitted
from proofs_check.delayed_trees.library import NAIVE as TOP_DOWN
from proofs_check.delayed_trees.library import played
from proofs_check.delayed_trees.long_run import all_pairs, given_the_text, not_behind
from proofs_check.delayed_trees.walks import ContextTable, worlds
from proofs_check.printed import ROUNDED, Table, are_ratios, below, decimals, is_mean, mean, table

AVERAGES, BY_DATASET, BY_SETTING = (table(f"delayed_trees_{part}", 2) for part in ("2_to_7", "8_and_9", "10_to_15"))
"""`NDE` is the neural selector's delayed expansion; Traversal has one row per K in Tables 8 to 15."""
MODELS = AVERAGES.columns[:3]
SETTINGS = BY_SETTING.columns
THROUGHPUT, BLOCK_EFFICIENCY = (10, 12, 14), (11, 13, 15)
"""The numbers of the tables by sampling setting, one table per model."""
MEASURES = {"tokens per second": (THROUGHPUT, 3, 8), "block efficiency": (BLOCK_EFFICIENCY, 2, 9)}
"""For each measure: its tables by sampling setting, its table of averages, and its table by dataset."""
TREES_OF_ONE = ("NaiveTree", "SpecTr", "SpecInfer", "Khisti")
"""Rules that equal Naive at K = 1 (D-K1); each row is the best of a grid that includes K = 1."""
OT_BASED = ("NSS", "NaiveTree", "Naive", "SpecInfer", "SpecTr", "Khisti")
"""The rules that Section 5 calls OT-based, Naive included."""
RIVALS = (*OT_BASED, "BV")
BY_K = tuple(f"Traversal {k}" for k in (2, 3, 4))


def found_in(number: int) -> Table:
    """The CSV file with the table of this number."""
    return next(one for one in (AVERAGES, BY_DATASET, BY_SETTING) if one.names(str(number)))


def methods(number: int) -> list[str]:
    """The methods with a row in the table of this number."""
    return [method for _, method in found_in(number).names(str(number))]


def row(number: int, method: str, of: str = "") -> list[Fraction]:
    """A method's row of the table of this number."""
    return found_in(number).row(str(number), method, of=of)


def lower(number: int, one: str, other: str) -> list[int]:
    """Columns in which one row is below another by more than rounding."""
    return below(row(number, one), row(number, other))


@claim("D-TABLES")
def tables(effort: int) -> Finding:
    grid = list(product((1, 2), range(3)))

    def naive_is_in_the_grid(world: ContextTable) -> bool:
        best = max(tokens_emitted(world, (k, 0, n), NAIVE) for k, n in grid)
        return best >= max(tokens_emitted(world, (1, 0, n), NAIVE) for n in range(3))

    gemma = {name: (row(2, name)[1], row(3, name)[1]) for name in (*TREES_OF_ONE, "Naive")}

    def among(number: int) -> list[Fraction]:
        """Smallest and largest value of TREES_OF_ONE on Gemma in one table, then the value of Naive."""
        *trees, naive = (row(number, name)[1] for name in gemma)
        return [min(trees), max(trees), naive]

    impossible = [name for name in TREES_OF_ONE if 1 in lower(2, name, "Naive") and 1 in lower(3, name, "Naive")]
    single = [MODELS[at] for at in lower(2, "BV", "Naive") if at < 3]
    everywhere = every(TREES_OF_ONE, lambda name: lower(13, name, "Naive") == list(range(8)))
    pairs = [zip(row(number, "BV"), row(number, "Naive"), strict=True) for number in BLOCK_EFFICIENCY]
    by_cell = [{"BV": bv, "Naive": naive} for pair in pairs for bv, naive in pair]
    margins = [cell["Naive"] - cell["BV"] for cell in by_cell]
    cells = len(by_cell)
    count = every(worlds(2, 3)[:: 3 - effort], naive_is_in_the_grid)
    long = every(all_pairs(2 + effort), not_behind)
    every(product(all_pairs(2 + effort), (0, 1)), given_the_text)
    if not impossible or not single:
        raise ArithmeticError("the tables do not contradict the theorems")
    return Finding(
        {
            "impossible": ", ".join(impossible),
            "efficiency": [*map(decimals, among(2))],
            "speed": [*map(decimals, among(3))],
            "everywhere": everywhere,
            "single": ", ".join(single),
            "cells": cells,
            "least": decimals(min(margins)),
            "most": decimals(max(margins)),
            "count": count,
            "long": long,
            "size": 2 + effort,
        },
        {
            "gemma_block_efficiency_and_tokens_per_second": {name: list(pair) for name, pair in gemma.items()},
            "block_efficiency_bv": row(2, "BV")[:3],
            "block_efficiency_naive": row(2, "Naive")[:3],
        },
        cases={
            "row": (
                {"rule": row(number, n)[1], "Naive": row(number, "Naive")[1]} for n in TREES_OF_ONE for number in (2, 3)
            ),
            "cell": by_cell,
            "average": ({"close": follows(name)} for name in (*TREES_OF_ONE, "Naive")),
        },
    )


@second("D-TABLES")
def _(case: Case) -> None:
    for name in (*TREES_OF_ONE, "Naive", "BV"):
        assert_averages(name)
    assert all(len(below(*(row(9, name, "Gemma") for name in (one, "Naive")))) == 4 for one in TREES_OF_ONE)
    solvers = [st.verify.TopDown(one) for one in (st.otlp.SpecTr(), st.otlp.SpecInfer(), st.otlp.Khisti())]
    for world in worlds(2, 3)[::3]:
        found = [st.expected_block_efficiency(v, world.library(), st.Paths(1, 2)).value for v in (TOP_DOWN, *solvers)]
        assert len(set(found)) == 1
        assert st.expected_block_efficiency(st.verify.Block(), world.library(), st.Paths(1, 2)).value >= found[0]
    for pairs in all_pairs(3)[::60]:
        more, less = (played(pairs, (3, 3), 9, verifier)[0] for verifier in (st.verify.Block(), TOP_DOWN))
        assert more >= less


def follows(method: str) -> bool:
    """Whether the row of Table 2 is the averages of the method's rows in Tables 11, 13 and 15, within rounding."""
    cells = zip(BLOCK_EFFICIENCY, row(2, method)[:3], strict=True)
    return all(is_mean(row(number, method), printed) for number, printed in cells)


def assert_averages(method: str, suffix: str = "", averages: tuple[int, int] = (3, 2)) -> None:
    """The rows by dataset and by setting have the printed averages, all within the rounding of both."""
    for (by_setting, _, by_dataset), number in zip(MEASURES.values(), averages, strict=True):
        printed = row(number, method)
        assert is_mean(printed[:3], printed[3])
        for model, at, one in zip(MODELS, by_setting, printed[:3], strict=True):
            assert is_mean(row(at, method + suffix), one)
            assert is_mean(row(by_dataset, method + suffix, model), one)


def best_of_k(number: int) -> list[Fraction]:
    """The best row of Traversal in each setting."""
    return [max(values) for values in zip(*(row(number, name) for name in BY_K), strict=True)]


@claim("D-TAB-BEST")
def traversal_best(effort: int) -> Finding:
    beaten = {
        f"Table {number}, {name}": {SETTINGS[at]: [row(number, name)[at], best_of_k(number)[at]] for at in ats}
        for by_setting, _, _ in MEASURES.values()
        for number in by_setting
        for name in RIVALS
        if (ats := [at for at, best in enumerate(best_of_k(number)) if best < row(number, name)[at]])
    }
    closest = min(rival - best for at in beaten.values() for rival, best in at.values())
    lost = {what: set().union(*(e for n, e in beaten.items() if f"Table {what}" in n)) for what in (14, 15)}

    def leads(measure: str, at: int) -> bool:
        tables_of = MEASURES[measure][0]
        average = {name: mean([row(number, name)[at] for number in tables_of]) for name in (*RIVALS, "Traversal 4")}
        return all(average["Traversal 4"] > value for name, value in average.items() if name in RIVALS)

    settings = [*product(MEASURES, range(8))]
    compared = [
        {"model": model, "rival": max(row(number, name)[at] for name in RIVALS), "Traversal": best_of_k(number)[at]}
        for by_setting, _, _ in MEASURES.values()
        for model, number in zip(MODELS, by_setting, strict=True)
        for at in range(8)
    ]
    if not beaten or any("14" not in name and "15" not in name for name in beaten):
        raise ArithmeticError("Traversal should be beaten in Tables 14 and 15 only")
    return Finding(
        {
            "settings": len(SETTINGS),
            "count": len(settings),
            "lost_14": len(lost[14]),
            "lost_15": len(lost[15]),
            "closest": closest,
        },
        {"rival_and_best_traversal": beaten},
        cases={"setting": compared, "average_over_models": ({"Traversal_leads": leads(*one)} for one in settings)},
    )


@second("D-TAB-BEST")
def _(case: Case) -> dict[str, Any]:
    for name in RIVALS:
        assert_averages(name)
    for by_setting, averages, by_dataset in MEASURES.values():
        for model, number in enumerate(by_setting):
            assert is_mean(row(number, "Traversal 4"), row(averages, "Traversal")[model])
        for dataset in range(5):
            of = {n: mean([row(by_dataset, n)[5 * m + dataset] for m in range(3)]) for n in (*RIVALS, "Traversal 4")}
            assert max(of, key=lambda name: of[name]) == "Traversal 4"
        assert max(methods(averages), key=lambda name: row(averages, name)[3]) == "Traversal"
    found = case["rival_and_best_traversal"]
    margins = [rival - best for settings in found.values() for rival, best in settings.values()]
    sure = sum(margin > 2 * 8 * 2 * ROUNDED for margin in margins)
    assert sure > len(margins) / 2
    assert max(methods(3), key=lambda name: row(3, name)[2]) in ("SpecTr", "SpecInfer")
    return {"sure": sure, "margins_seen": len(margins)}


def average(number: int, method: str) -> Fraction:
    """A method's average over the three models, as printed."""
    return row(number, method)[3]


def first(number: int, column: int, among: tuple[str, ...]) -> set[str]:
    """The methods with the largest number in a column."""
    best = max(row(number, name)[column] for name in among)
    return {name for name in among if row(number, name)[column] == best}


@claim("D-TAB-TEXT")
def reported(effort: int) -> Finding:
    rivals = [name for name in methods(2) if name != "Traversal"]
    ahead = [average(table, "Traversal") / max(average(table, name) for name in rivals) - 1 for table in (2, 3)]
    alike = [average(3, name) for name in ("SpecTr", "BV", "SpecInfer")]
    winners = [first(3, column, OT_BASED) for column in range(3)]
    gained = [mean([average(table, name) for name in methods(table)]) - 1 for table in (4, 5)]
    over = average(7, "SpecInfer") / average(3, "Traversal") - 1
    percent = Fraction(1, 100)
    told = [
        all(14 * percent <= x <= 18 * percent for x in ahead),
        max(alike) / min(alike) <= 1 + 3 * percent,
        all(min(methods(table), key=lambda name: average(table, name)) == "NSS" for table in (2, 3)),
        winners == [{"SpecInfer"}, {"Naive"}, {"SpecTr", "SpecInfer"}],
        abs(gained[0] - 10 * percent) <= 2 * percent,
        abs(gained[1] - 25 * percent) <= 2 * percent,
        abs(over - 5 * percent) <= percent / 2,
    ]
    return Finding(
        {"ahead": ahead, "gained": gained, "over": over}, cases={"sentence": ({"as_told": one} for one in told)}
    )


@second("D-TAB-TEXT")
def averages_follow(case: Case) -> dict[str, Any]:
    """Second check: the averages behind the percentages are those of the cells."""
    for name in RIVALS:
        assert_averages(name)
    chosen = [name for name in methods(4) if f"{name} NDE" in methods(10)]
    for name in chosen:
        assert_averages(name, " NDE", (7, 6))
    return {"checked": len(RIVALS) + len(chosen)}


@claim("D-TAB-RATIO")
def ratios(effort: int) -> Finding:
    def ratios_to(method: str, base: str) -> bool:
        triples = ((4, 6, 2), (5, 7, 3))
        return all(are_ratios(row(new, method), row(old, base), row(given, method)) for given, new, old in triples)

    wrong = [method for method in methods(4) if not ratios_to(method, method)]
    every(wrong, lambda method: method == "NaiveTree" and ratios_to(method, "Naive"))
    own = [new / old for new, old in zip(row(6, "NaiveTree"), row(2, "NaiveTree"), strict=True)]
    return Finding(
        {"wrong": ", ".join(wrong), "own": own},
        {"NaiveTree": {"printed": row(4, "NaiveTree"), "to_itself": own}},
        cases={
            "row": (
                {"method": name, "of_itself": ratios_to(name, name), "of_Naive": ratios_to(name, "Naive")}
                for name in methods(4)
            )
        },
    )


@second("D-TAB-RATIO")
def _(case: Case) -> None:
    for name in methods(4):
        assert_averages(name, " NDE", (7, 6))
    printed, own = case["NaiveTree"]["printed"], case["NaiveTree"]["to_itself"]
    for model, number in enumerate(BLOCK_EFFICIENCY):
        delayed, tree, path = (float(sum(row(number, name))) for name in ("NaiveTree NDE", "NaiveTree", "Naive"))
        assert abs(delayed / path - float(printed[model])) < 0.01
        assert abs(delayed / tree - float(own[model])) < 0.01
    assert max(abs(one - other) for one, other in zip(printed, own, strict=True)) > Fraction(1, 2)
