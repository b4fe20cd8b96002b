"""Tables 2 to 15: whether their numbers can follow from the grids and theorems that the text states."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import spectheory as st
from proofs_check.claims import Finding, claim, every, second
from proofs_check.delayed_trees.cycles import NAIVE as TOP_DOWN
from proofs_check.delayed_trees.cycles import arrays, played
from proofs_check.delayed_trees.expansion import NAIVE, tokens_emitted
from proofs_check.delayed_trees.long_run import all_pairs, given_the_text, not_behind
from proofs_check.delayed_trees.printed_tables import (
    BLOCK_EFFICIENCY,
    MODELS,
    ROUNDING,
    SETTINGS,
    TABLES,
    THROUGHPUT,
    below,
    mean,
    row,
)
from proofs_check.delayed_trees.walks import World, worlds

TREES_OF_ONE = ("NaiveTree", "SpecTr", "SpecInfer", "Khisti")
"""Rules that are Naive at K = 1 (D-K1), a shape in the grid over which each row takes the best."""
RIVALS = ("NSS", "NaiveTree", "Naive", "SpecInfer", "SpecTr", "Khisti", "BV")
BY_K = tuple(f"Traversal {k}" for k in (2, 3, 4))
MEASURES = {"tokens per second": (THROUGHPUT, 3, 8), "block efficiency": (BLOCK_EFFICIENCY, 2, 9)}
"""Each with its tables by sampling setting, of averages, and by dataset."""


@claim("D-TABLES")
def tables(effort: int) -> Finding:
    grid = list(product((1, 2), range(3)))

    def naive_is_in_the_grid(world: World) -> bool:
        best = max(tokens_emitted(world, (k, 0, n), NAIVE) for k, n in grid)
        return best >= max(tokens_emitted(world, (1, 0, n), NAIVE) for n in range(3))

    gemma = {name: (row(2, name)[1], row(3, name)[1]) for name in (*TREES_OF_ONE, "Naive")}
    impossible = [name for name in TREES_OF_ONE if 1 in below(2, name, "Naive") and 1 in below(3, name, "Naive")]
    single = [MODELS[at] for at in below(2, "BV", "Naive") if at < 3]
    everywhere = every(TREES_OF_ONE, lambda name: below(13, name, "Naive") == list(range(8)))
    cells = every(product(BLOCK_EFFICIENCY, range(8)), lambda c: row(c[0], "BV")[c[1]] < row(c[0], "Naive")[c[1]])
    count = every(worlds(2, 3)[:: 3 - effort], naive_is_in_the_grid)
    long = every(all_pairs(2 + effort), not_behind)
    every(product(all_pairs(2 + effort), (0, 1)), given_the_text)
    if not impossible or not single:
        raise ArithmeticError("the tables do not contradict the theorems")
    return Finding(
        "false",
        {
            "impossible": ", ".join(impossible),
            "everywhere": everywhere,
            "single": ", ".join(single),
            "cells": cells,
            "count": count,
            "long": long,
            "size": 2 + effort,
        },
        {
            "gemma_block_efficiency_and_tokens_per_second": {name: list(pair) for name, pair in gemma.items()},
            "block_efficiency_bv": row(2, "BV")[:3],
            "block_efficiency_naive": row(2, "Naive")[:3],
        },
    )


@second("D-TABLES")
def _(finding: Finding) -> None:
    assert finding.status == "false"
    for name in (*TREES_OF_ONE, "Naive", "BV"):
        assert_averages(name)
    for name in TREES_OF_ONE:
        assert sum(5 <= at < 10 for at in below(9, name, "Naive")) == 4
    for number in BLOCK_EFFICIENCY:
        one, other = ([int(x.replace(".", "")) for x in TABLES[number][name].split()] for name in ("BV", "Naive"))
        assert all(2 <= b - a <= 57 for a, b in zip(one, other, strict=True))
    solvers = [st.verify.TopDown(one) for one in (st.otlp.SpecTr(), st.otlp.SpecInfer(), st.otlp.Khisti())]
    for world in worlds(2, 3)[::3]:
        found = [st.expected_block_efficiency(v, world.library(), st.Paths(1, 2)).value for v in (TOP_DOWN, *solvers)]
        assert len(set(found)) == 1
        assert st.expected_block_efficiency(st.verify.Block(), world.library(), st.Paths(1, 2)).value >= found[0]
    for pairs in all_pairs(3)[::60]:
        p, q = (arrays([pair[side] for pair in pairs]) for side in (0, 1))
        more, less = (played(p, q, (3, 3), 9, verifier)[0] for verifier in (st.verify.Block(), TOP_DOWN))
        assert more >= less


def assert_averages(method: str, suffix: str = "", averages: tuple[int, int] | None = None) -> None:
    """The rows by dataset and by setting have the printed averages, all within the rounding of both."""
    for at, (by_setting, table, by_dataset) in enumerate(MEASURES.values()):
        printed = row(averages[at] if averages else table, method)
        rows = [row(number, method + suffix) for number in by_setting]
        datasets = row(by_dataset, method + suffix)
        for model in range(3):
            assert abs(mean(rows[model]) - printed[model]) <= 2 * ROUNDING
            assert abs(mean(datasets[5 * model : 5 * model + 5]) - printed[model]) <= 2 * ROUNDING
        assert abs(mean(printed[:3]) - printed[3]) <= 2 * ROUNDING


def best_of_k(table: int) -> list[Fraction]:
    """The best row of Traversal in each setting."""
    return [max(values) for values in zip(*(row(table, name) for name in BY_K), strict=True)]


@claim("D-TAB-BEST")
def traversal_best(effort: int) -> Finding:
    beaten = {
        f"Table {table}, {name}": {SETTINGS[at]: [row(table, name)[at], best_of_k(table)[at]] for at in ats}
        for tables_of, _, _ in MEASURES.values()
        for table in tables_of
        for name in RIVALS
        if (ats := [at for at, best in enumerate(best_of_k(table)) if best < row(table, name)[at]])
    }
    closest = min(rival - best for at in beaten.values() for rival, best in at.values())
    lost = {what: set().union(*(e for n, e in beaten.items() if f"Table {what}" in n)) for what in (14, 15)}

    def leads(case: tuple[str, int]) -> bool:
        measure, at = case
        tables_of = MEASURES[measure][0]
        average = {name: mean([row(number, name)[at] for number in tables_of]) for name in (*RIVALS, "Traversal 4")}
        return all(average["Traversal 4"] > value for name, value in average.items() if name in RIVALS)

    count = every(product(MEASURES, range(8)), leads)
    if not beaten or any("14" not in name and "15" not in name for name in beaten):
        raise ArithmeticError("Traversal is beaten elsewhere")
    return Finding(
        "corrected",
        {"count": count, "lost_14": len(lost[14]), "lost_15": len(lost[15]), "closest": closest},
        {"rival_and_best_traversal": beaten},
    )


@second("D-TAB-BEST")
def _(finding: Finding) -> dict[str, Any]:
    for name in RIVALS:
        assert_averages(name)
    for by_setting, averages, by_dataset in MEASURES.values():
        for model, number in enumerate(by_setting):
            assert abs(mean(row(number, "Traversal 4")) - row(averages, "Traversal")[model]) <= 2 * ROUNDING
        for dataset in range(5):
            of = {n: mean([row(by_dataset, n)[5 * m + dataset] for m in range(3)]) for n in (*RIVALS, "Traversal 4")}
            assert max(of, key=lambda name: of[name]) == "Traversal 4"
        assert max(TABLES[averages], key=lambda name: row(averages, name)[3]) == "Traversal"
    found = finding.case["rival_and_best_traversal"]
    margins = [rival - best for settings in found.values() for rival, best in settings.values()]
    sure = sum(margin > 2 * 8 * 2 * ROUNDING for margin in margins)
    assert sure > len(margins) / 2
    lost = {what: {at for name, ats in found.items() if what in name for at in ats} for what in ("14,", "15,")}
    hundredths = [int(number.replace(".", "")) for number in TABLES[15]["Khisti"].split()]
    assert (len(lost["14,"]), len(lost["15,"]), hundredths[3]) == (5, 2, 685)
    assert max(TABLES[3], key=lambda name: row(3, name)[2]) in ("SpecTr", "SpecInfer")
    return {"sure": sure, "margins_seen": len(margins)}
