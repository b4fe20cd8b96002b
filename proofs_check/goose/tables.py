"""Goose, Tables 2 and 3: what Sections 5.3 and 5.4 and Appendix D say about them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from proofs_check.claims import Case, Finding, claim, second
from proofs_check.printed import HUNDREDTH, decimals, is_mean, mean, table

TABLE_2 = table("goose_2_components", 1)
"""tau on Qwen3-8B by dataset, and the mean relative loss."""
TABLE_3 = table("goose_3", 2)
"""Speedup and tau by dataset, then the average speedup."""
TOLD = {("ClassEval", "GSM8K"): "4.82", ("MBPP", "MT-Bench"): "3.24"}
"""The mean tau of strong- and of weak-affinity datasets, as the text has it."""


def affinity(datasets: Sequence[str]) -> Fraction:
    """Goose's mean tau over these datasets and all models."""
    rows = [name for name in TABLE_3.text if name[1] == "Goose"]
    return mean(TABLE_3.row(*name, of=f"{dataset} tau")[0] for name in rows for dataset in datasets)


def synergy() -> list[Fraction]:
    """Goose's tau over the tau of the better source, in each of 25 settings."""
    models = dict.fromkeys(name for name, _ in TABLE_3.text)
    rows = [[TABLE_3.row(model, method, of="tau") for method in ("PLD", "TR", "Goose")] for model in models]
    return [g / max(one, other) for triple in rows for one, other, g in zip(*triple, strict=True)]


@claim("G-TABLES")
def tables(effort: int) -> Finding:
    full, *less, swapped = (TABLE_2.row(*name)[:5] for name in TABLE_2.text)
    *losses, control = (mean(1 - a / b for a, b in zip(row, full, strict=True)) for row in (*less, swapped))
    found, ratios = [affinity(datasets) for datasets in TOLD], synergy()
    sums = [decimals(sum(row, Fraction(0))) for row in (full, swapped)]
    means = [*map(decimals, found)]
    return Finding(
        {"models": len(ratios), "raised": f"{float(-control):.1%}", "whole": sums[0], "swapped": sums[1]}
        | {"found": means, "ratio": decimals(found[0] / found[1])},
        {"control": {"goose": sums[0], "without_PLD_tokens": sums[1]}, "mean_tau": means, "told": [*TOLD.values()]},
        cases={
            "setting": ({"synergy": one} for one in ratios),
            "row_without_a_component": ({"loss": loss} for loss in losses),
            "control_row": [{"loss": control}],
            "group_of_datasets": (
                {"mean": one, "told": Fraction(told), "rounding": HUNDREDTH}
                for one, told in zip(found, TOLD.values(), strict=True)
            ),
        },
    )


@second("G-TABLES")
def tables_again(case: Case) -> None:
    """Second check: the average speedups are those of their rows, and tau is the same in both tables."""
    for name in TABLE_3.text:
        assert is_mean(TABLE_3.row(*name, of=" speedup")[:5], TABLE_3.row(*name)[-1])
    for dataset in TABLE_2.columns[:5]:
        assert TABLE_3.row("Qwen3-8B", "Goose", of=f"{dataset} tau") == TABLE_2.row("Goose", of=dataset)
