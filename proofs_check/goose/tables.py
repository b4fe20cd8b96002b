"""Goose, Tables 2 and 3: what Sections 5.2 to 5.4 and Appendix D say of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from proofs_check.claims import Finding, claim, every, second
from proofs_check.printed import ROUNDED, decimals, is_mean, is_ratio, mean, numbers, rounds_to

DATASETS = ("ClassEval", "GSM8K", "HumanEval", "MBPP", "MT-Bench")
TABLE_3 = {
    "Vicuna-7B": {
        "PLD": "2.34 2.50 1.43 1.46 1.74 1.78 1.59 1.62 1.47 1.48 1.71",
        "TR": "2.58 3.29 2.46 2.96 2.53 3.06 2.41 2.86 2.19 2.60 2.43",
        "Goose": "3.58 4.64 2.67 3.23 2.97 3.63 2.84 3.40 2.42 2.88 2.90",
    },
    "Llama-3-8B": {
        "PLD": "2.30 2.49 4.04 4.18 1.92 2.01 1.67 1.72 1.67 1.72 2.32",
        "TR": "2.87 3.64 3.68 4.52 2.79 3.40 2.60 3.11 2.29 2.82 2.85",
        "Goose": "3.82 4.89 7.46 9.25 3.36 4.11 3.00 3.61 2.84 3.50 4.10",
    },
    "Qwen3-8B": {
        "PLD": "2.50 2.61 1.65 1.71 1.31 1.36 1.45 1.50 1.67 1.73 1.72",
        "TR": "3.77 4.50 2.60 3.03 2.18 2.55 2.43 2.81 2.44 2.86 2.68",
        "Goose": "4.28 5.19 3.23 3.87 2.34 2.78 2.70 3.20 2.92 3.51 3.09",
    },
    "Vicuna-13B": {
        "PLD": "2.34 2.47 1.33 1.36 1.62 1.66 1.49 1.51 1.35 1.36 1.63",
        "TR": "2.71 3.34 2.56 3.02 2.49 2.94 2.40 2.78 2.12 2.46 2.46",
        "Goose": "3.68 4.59 2.66 3.14 2.84 3.37 2.66 3.11 2.30 2.67 2.83",
    },
    "Vicuna-33B": {
        "PLD": "1.85 1.99 1.29 1.33 1.36 1.40 1.27 1.30 1.14 1.15 1.38",
        "TR": "1.97 2.62 2.14 2.63 1.97 2.37 1.95 2.29 1.72 2.01 1.95",
        "Goose": "2.80 3.69 2.53 3.10 2.37 2.83 2.35 2.74 1.87 2.15 2.38",
    },
}
"""Speedup and tau by dataset, then the average speedup."""
TABLE_2 = {
    "Goose": "2.78 3.87 3.20 5.19 3.51",
    "w/o spine branches": "2.71 3.70 3.10 5.03 3.46",
    "w/o bigram adjacency": "2.69 3.66 3.11 5.01 3.38",
    "w/o consensus bypass": "2.77 3.83 3.05 4.60 3.22",
    "w/o context-match spine": "2.68 3.76 3.11 5.00 3.37",
    "w/o PLD tokens (shape kept)": "2.77 3.88 3.21 5.19 3.54",
}
"""tau on Qwen3-8B: HumanEval, GSM8K, MBPP, ClassEval, MT-Bench."""
PRINTED_LOSS = ("0.029", "0.037", "0.051", "0.034")
"""Of the rows between the first and the last."""
STRONG, WEAK = ("ClassEval", "GSM8K"), ("MBPP", "MT-Bench")


def tau(model: str, method: str) -> list[Fraction]:
    """By dataset."""
    return numbers(TABLE_3[model][method])[1:10:2]


def over_models(dataset: str, left_out: Sequence[str] = ()) -> list[Fraction]:
    """Goose's tau on each model."""
    return [tau(model, "Goose")[DATASETS.index(dataset)] for model in TABLE_3 if model not in left_out]


def cv_squared(values: Sequence[Fraction], *, sample: bool) -> Fraction:
    """The squared coefficient of variation, of a sample or of all there is."""
    centre = mean(values)
    return sum(((v - centre) ** 2 for v in values), Fraction(0)) / (len(values) - sample) / centre**2


def is_cv(values: Sequence[Fraction], percent: str) -> bool:
    """Whether either form of it is printed so, with the values anywhere within their rounding."""
    low, high = ((Fraction(percent) + half) / 100 for half in (-Fraction(1, 20), Fraction(1, 20)))
    moved = list(product(*((v - ROUNDED, v, v + ROUNDED) for v in values)))
    found = [[cv_squared(one, sample=sample) for one in moved] for sample in (False, True)]
    return any(min(form) <= high**2 and max(form) >= low**2 for form in found)


def affinity(left_out: Sequence[str] = ()) -> list[Fraction]:
    """Mean tau on strong- and on weak-affinity datasets."""
    return [mean([v for name in names for v in over_models(name, left_out)]) for names in (STRONG, WEAK)]


def synergy() -> tuple[list[Fraction], list[Fraction]]:
    """The tau of Goose over that of the better source: in each of 25 settings, and of each model's averages."""
    rows = [[tau(model, method) for method in ("PLD", "TR", "Goose")] for model in TABLE_3]
    each = [g / max(one, other) for triple in rows for one, other, g in zip(*triple, strict=True)]
    return each, [mean(goose) / max(mean(pld), mean(tr)) for pld, tr, goose in rows]


@claim("G-TABLES")
def tables(effort: int) -> Finding:
    full, *less = (numbers(row) for row in TABLE_2.values())
    control = less.pop()

    def lost(row: list[Fraction]) -> Fraction:
        """The mean of the relative losses of the five taus."""
        return mean([1 - one / whole for one, whole in zip(row, full, strict=True)])

    every(
        zip(less, PRINTED_LOSS, strict=True),
        lambda c: rounds_to(lost(c[0]), Fraction(c[1]), Fraction(1, 1000)),
    )
    each, by_model = synergy()
    every(each, lambda ratio: ratio > 1)
    every(
        ((min(by_model), "1.16"), (max(by_model), "1.45"), (mean(by_model), "1.24"), (max(each), "2.05")),
        lambda case: rounds_to(case[0], Fraction(case[1]), slack=ROUNDED),
    )
    found, four = affinity(), affinity(["Vicuna-33B"])
    whole, swapped = decimals(sum(full, Fraction(0))), decimals(sum(control, Fraction(0)))
    limit = Fraction(14, 100) ** 2
    above = {
        sample: [name for name in DATASETS if cv_squared(over_models(name), sample=sample) > limit]
        for sample in (False, True)
    }
    gsm = over_models("GSM8K")
    without = over_models("GSM8K", ["Llama-3-8B"])
    follows = [is_cv(gsm, "58.5"), is_cv(without, "11.7"), rounds_to(found[0], Fraction("4.82"), slack=ROUNDED)]
    if any(follows) or not rounds_to(-lost(control), Fraction("0.002"), Fraction(1, 1000)):
        raise ArithmeticError("the tables are as told")
    if not all({"HumanEval", "MT-Bench", "GSM8K"} <= set(names) for names in above.values()):
        raise ArithmeticError("the others are below 14%")
    percent = [f"{100 * float(cv_squared(v, sample=s)) ** 0.5:.1f}" for v in (gsm, without) for s in (True, False)]
    return Finding(
        "corrected",
        {
            "models": len(each),
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
    )


@second("G-TABLES")
def tables_again(finding: Finding) -> None:
    """Averages of Table 3, its overlap with Table 2, and whole hundredths."""
    for model in TABLE_3:
        for row in map(numbers, TABLE_3[model].values()):
            assert is_mean(row[0:10:2], row[10])
    order = ("HumanEval", "GSM8K", "MBPP", "ClassEval", "MT-Bench")
    for name, value in zip(order, numbers(TABLE_2["Goose"]), strict=True):
        assert tau("Qwen3-8B", "Goose")[DATASETS.index(name)] == value
    for isotropic, ratio, spine in (("3.97", "1.31", "5.19"), ("3.01", "1.29", "3.87"), ("2.81", "1.25", "3.51")):
        assert is_ratio(Fraction(spine), Fraction(isotropic), Fraction(ratio))
    whole = {name: sum(int(x.replace(".", "")) for x in row.split()) for name, row in TABLE_2.items()}
    assert whole["w/o PLD tokens (shape kept)"] == 1859 > whole["Goose"] == 1855
    hundredths = {name: [int(v * 100) for v in over_models(name)] for name in DATASETS}
    strong, weak = (sum(sum(hundredths[name]) for name in names) for names in (STRONG, WEAK))
    assert (strong, weak) == (4559, 3077)
    assert rounds_to(Fraction(strong, weak), Fraction("1.48"))
    for name in finding.case["above_14_percent"]["of_all"]:
        values = hundredths[name]
        squares = 5 * sum(v * v for v in values) - sum(values) ** 2  # 25 times the variance
        assert 100**2 * squares > 14**2 * sum(values) ** 2
