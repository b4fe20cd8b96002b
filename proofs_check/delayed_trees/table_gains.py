"""What the paper says of its tables: gains, ranks and ratios."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.claims import Finding, claim, every, second
from proofs_check.delayed_trees.printed_tables import BLOCK_EFFICIENCY, ROUNDING, TABLES, mean, row
from proofs_check.delayed_trees.tables import assert_averages

OT_BASED = ("NSS", "NaiveTree", "Naive", "SpecInfer", "SpecTr", "Khisti")
"""Naive counts among them in Section 5."""


def average(table: int, method: str) -> Fraction:
    """Over the three models, as printed."""
    return row(table, method)[3]


def first(table: int, column: int, among: tuple[str, ...]) -> set[str]:
    """The methods of the largest number in a column."""
    best = max(row(table, name)[column] for name in among)
    return {name for name in among if row(table, name)[column] == best}


@claim("D-TAB-TEXT")
def told(effort: int) -> Finding:
    rivals = [name for name in TABLES[2] if name != "Traversal"]
    ahead = [average(table, "Traversal") / max(average(table, name) for name in rivals) - 1 for table in (2, 3)]
    alike = [average(3, name) for name in ("SpecTr", "BV", "SpecInfer")]
    winners = [first(3, column, OT_BASED) for column in range(3)]
    gained = [mean([average(table, name) for name in TABLES[table]]) - 1 for table in (4, 5)]
    over = average(7, "SpecInfer") / average(3, "Traversal") - 1
    percent = Fraction(1, 100)
    right = [
        all(14 * percent <= x <= 18 * percent for x in ahead),
        max(alike) / min(alike) <= 1 + 3 * percent,
        all(min(TABLES[table], key=lambda name: average(table, name)) == "NSS" for table in (2, 3)),
        winners == [{"SpecInfer"}, {"Naive"}, {"SpecTr", "SpecInfer"}],
        abs(gained[0] - 10 * percent) <= 2 * percent,
        abs(gained[1] - 25 * percent) <= 2 * percent,
        abs(over - 5 * percent) <= percent / 2,
    ]
    every(right, bool)
    more, faster, longer, quicker, above = (f"{float(x):.1%}" for x in (*ahead, *gained, over))
    return Finding("holds", {"more": more, "faster": faster, "longer": longer, "quicker": quicker, "above": above})


@claim("D-TAB-RATIO")
def ratios(effort: int) -> Finding:
    triples = ((4, 6, 2), (5, 7, 3))

    def is_ratio(case: tuple[str, str]) -> bool:
        method, base = case
        return all(
            (new - ROUNDING) / (old + ROUNDING) - ROUNDING <= printed <= (new + ROUNDING) / (old - ROUNDING) + ROUNDING
            for given, after, before in triples
            for printed, new, old in zip(row(given, method), row(after, method), row(before, base), strict=True)
        )

    wrong = [method for method in TABLES[4] if not is_ratio((method, method))]
    every([(method, method) for method in TABLES[4] if method not in wrong] + [(m, "Naive") for m in wrong], is_ratio)
    own = [new / old for new, old in zip(row(6, "NaiveTree"), row(2, "NaiveTree"), strict=True)]
    return Finding(
        "corrected",
        {"wrong": ", ".join(wrong), "first_own": own[0], "listed": ", ".join(f"{float(x):.2f}" for x in own[:3])},
        {"NaiveTree": {"printed": row(4, "NaiveTree"), "to_itself": own}},
    )


@second("D-TAB-RATIO")
def _(finding: Finding) -> None:
    for name in TABLES[4]:
        assert_averages(name, " NDE", (7, 6))
    printed, own = finding.case["NaiveTree"]["printed"], finding.case["NaiveTree"]["to_itself"]
    for model, number in enumerate(BLOCK_EFFICIENCY):
        delayed, tree, path = (float(sum(row(number, name))) for name in ("NaiveTree NDE", "NaiveTree", "Naive"))
        assert abs(delayed / path - float(printed[model])) < 0.01
        assert abs(delayed / tree - float(own[model])) < 0.01
    assert max(abs(one - other) for one, other in zip(printed, own, strict=True)) > Fraction(1, 2)
