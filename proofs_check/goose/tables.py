"""Goose, Tables 2 and 3: what Sections 5.2 to 5.4 and Appendix D say about them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from proofs_check.claims import Case, Finding, claim, every, second
from proofs_check.printed import HUNDREDTH, ROUNDED, are_ratios, decimals, is_mean, mean, rounds_to, table

TABLE_2 = table("goose_2_components", 1)
"""tau on Qwen3-8B by dataset, and the mean relative loss."""
TOPOLOGY = table("goose_2_topology", 2)
"""The second half of Table 2: tau with a spine, and tau with isotropic trees."""
TABLE_3 = table("goose_3", 2)
"""Speedup and tau by dataset, then the average speedup."""
DATASETS = ("ClassEval", "GSM8K", "HumanEval", "MBPP", "MT-Bench")
STRONG, WEAK = ("ClassEval", "GSM8K"), ("MBPP", "MT-Bench")


def over_models(dataset: str, left_out: Sequence[str] = ()) -> list[Fraction]:
    """Goose's tau on each model."""
    rows = [name for name in TABLE_3.text if name[1] == "Goose" and name[0] not in left_out]
    return [TABLE_3.row(*name, of=f"{dataset} tau")[0] for name in rows]


def cv_squared(values: Sequence[Fraction], *, sample: bool) -> Fraction:
    """The squared coefficient of variation of a sample, or of a whole population."""
    centre = mean(values)
    return sum(((v - centre) ** 2 for v in values), Fraction(0)) / (len(values) - sample) / centre**2


def is_cv(values: Sequence[Fraction], percent: str) -> bool:
    """Whether `percent` is either form of the coefficient of variation, for values anywhere within their rounding."""
    low, high = ((Fraction(percent) + half) / 100 for half in (-Fraction(1, 20), Fraction(1, 20)))
    moved = list(product(*((v - ROUNDED, v, v + ROUNDED) for v in values)))
    found = [[cv_squared(one, sample=sample) for one in moved] for sample in (False, True)]
    return any(min(form) <= high**2 and max(form) >= low**2 for form in found)


def affinity(left_out: Sequence[str] = ()) -> list[Fraction]:
    """Mean tau on strong- and on weak-affinity datasets."""
    return [mean(v for name in names for v in over_models(name, left_out)) for names in (STRONG, WEAK)]


def synergy() -> tuple[list[Fraction], list[Fraction]]:
    """Goose's tau over the tau of the better source: in each of 25 settings, then for each model's averages."""
    models = dict.fromkeys(name for name, _ in TABLE_3.text)
    rows = [[TABLE_3.row(model, method, of="tau") for method in ("PLD", "TR", "Goose")] for model in models]
    each = [g / max(one, other) for triple in rows for one, other, g in zip(*triple, strict=True)]
    return each, [mean(goose) / max(mean(pld), mean(tr)) for pld, tr, goose in rows]


@claim("G-TABLES")
def tables(effort: int) -> Finding:
    full, *less = (TABLE_2.row(*name)[:5] for name in TABLE_2.text)
    printed = [Fraction(loss) / 100 for name in TABLE_2.text for loss in TABLE_2.entries(*name, of="loss")]
    losses = [mean(1 - one / whole for one, whole in zip(row, full, strict=True)) for row in less]
    control = losses.pop()
    every(zip(losses, printed[:4], strict=True), lambda loss, printed: rounds_to(loss, printed, Fraction(1, 1000)))
    each, by_model = synergy()
    every(each, lambda ratio: ratio > 1)
    every(
        ((min(by_model), "1.16"), (max(by_model), "1.45"), (mean(by_model), "1.24"), (max(each), "2.05")),
        lambda ratio, printed: rounds_to(ratio, Fraction(printed), slack=ROUNDED),
    )
    found, four = affinity(), affinity(["Vicuna-33B"])
    whole, swapped = decimals(sum(full, Fraction(0))), decimals(sum(less[-1], Fraction(0)))
    limit = Fraction(14, 100) ** 2
    above = {
        sample: [name for name in DATASETS if cv_squared(over_models(name), sample=sample) > limit]
        for sample in (False, True)
    }
    gsm = over_models("GSM8K")
    without = over_models("GSM8K", ["Llama-3-8B"])
    follows = [is_cv(gsm, "58.5"), is_cv(without, "11.7"), rounds_to(found[0], Fraction("4.82"), slack=ROUNDED)]
    if any(follows) or not rounds_to(-control, printed[4], Fraction(1, 1000)):
        raise ArithmeticError("the stated figures should not follow from the tables, but do")
    if not all({"HumanEval", "MT-Bench", "GSM8K"} <= set(names) for names in above.values()):
        raise ArithmeticError("HumanEval, MT-Bench and GSM8K are not all above 14%")
    percent = [f"{100 * float(cv_squared(v, sample=s)) ** 0.5:.1f}" for v in (gsm, without) for s in (True, False)]
    return Finding(
        {
            "models": len(each),
            "ratio": decimals(found[0] / found[1]),
            "raised": f"{float(-control):.1%}",
            "swapped": swapped,
            "whole": whole,
            "found": [*map(decimals, found)],
            "four": [*map(decimals, four)],
            "percent": percent,
        },
        {
            "control": {"goose": whole, "without_PLD_tokens": swapped},
            "mean_tau": {"strong": decimals(found[0]), "weak": decimals(found[1]), "printed": ["4.82", "3.24"]},
            "above_14_percent": {"of_a_sample": above[True], "of_all": above[False]},
            "GSM8K_percent": {"of_a_sample": percent[0], "of_all": percent[1], "printed": "58.5"},
            "GSM8K_percent_without_Llama": {"of_a_sample": percent[2], "of_all": percent[3], "printed": "11.7"},
        },
        cases={
            "setting": ({"synergy": one} for one in each),
            "row_without_a_component": ({"loss": loss} for loss in losses),
            "control_row": [{"loss": control}],
            "group_of_datasets": (
                {"mean": one, "told": told, "rounding": HUNDREDTH}
                for one, told in zip(found, (Fraction("4.82"), Fraction("3.24")), strict=True)
            ),
        },
    )


@second("G-TABLES")
def _(case: Case) -> dict[str, Any]:
    for name in TABLE_3.text:
        assert is_mean(TABLE_3.row(*name, of=" speedup")[:5], TABLE_3.row(*name)[-1])
    spine, three = (TOPOLOGY.columns[at] for at in (0, 1))
    for name in TOPOLOGY.text:
        tau = TABLE_3.row(name[0], "Goose", of=f"{name[1]} tau")
        assert tau == TOPOLOGY.row(*name, of=spine)
        assert name[0] != "Qwen3-8B" or tau == TABLE_2.row("Goose", of=name[1])
        gain = 1 + TOPOLOGY.row(*name)[-1] / 100
        assert are_ratios(tau, TOPOLOGY.row(*name, of=three), [gain])
    return {"gains": len(TOPOLOGY.text)}
