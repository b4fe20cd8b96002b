"""OPT-Tree, Tables 1 and 3, and what a layer of a tree may hold."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.claims import Finding, claim, every, second
from proofs_check.printed import decimals, is_ratio, mean, numbers

ALONE = {"LLaMA-2-7B": "51.89", "LLaMA-2-13B": "26.79", "LLaMA-2-70B": "6.29", "Vicuna-33B": "11.25"}
"""Tokens per second without drafts, Table 1."""
TABLE_1 = {
    ("LLaMA-2-7B", "L-68M"): "2.58 87.57 1.69",
    ("LLaMA-2-7B", "L-1B"): "4.88 52.48 1.01",
    ("LLaMA-2-7B", "EAGLE"): "4.36 132.75 2.56",
    ("LLaMA-2-13B", "L-68M"): "2.58 48.10 1.80",
    ("LLaMA-2-13B", "L-1B"): "5.20 43.40 1.62",
    ("LLaMA-2-13B", "EAGLE"): "4.35 76.61 2.86",
    ("LLaMA-2-70B", "L-7B"): "7.74 11.65 1.85",
    ("LLaMA-2-70B", "EAGLE"): "4.06 19.21 3.05",
    ("Vicuna-33B", "V-7B"): "6.51 13.74 1.22",
    ("Vicuna-33B", "EAGLE"): "3.06 25.17 2.24",
}
"""OPT-Tree on MT-Bench, temperature 0: mean acceptance length, tokens per second, speedup."""
TABLE_3 = {
    ("LLaMA-2-7B", "L-68M"): "2.72 88.90 1.71",
    ("LLaMA-2-7B", "L-1B"): "5.25 49.76 0.96",
    ("LLaMA-2-7B", "EAGLE"): "4.07 125.79 2.42",
    ("LLaMA-2-13B", "L-68M"): "2.26 43.45 1.62",
    ("LLaMA-2-13B", "L-1B"): "4.23 37.84 1.41",
    ("LLaMA-2-13B", "EAGLE"): "4.13 69.27 2.21",
    ("LLaMA-2-70B", "L-7B"): "7.17 11.87 1.89",
    ("LLaMA-2-70B", "EAGLE"): "4.09 18.92 3.01",
    ("Vicuna-33B", "V-7B"): "4.91 13.48 1.20",
    ("Vicuna-33B", "EAGLE"): "2.89 25.31 2.25",
}
"""The same at temperature 1."""


def higher(column: int) -> dict[str, list[str]]:
    """The pairs of models with a higher number at temperature 1 than at 0, and both."""
    both = {key: [table[key].split()[column] for table in (TABLE_1, TABLE_3)] for key in TABLE_1}
    return {" with ".join(key): values for key, values in both.items() if Fraction(values[1]) > Fraction(values[0])}


@claim("O-TABLES")
def tables(effort: int) -> Finding:
    lengths, speedups = higher(0), higher(2)
    odd = [key for key, row in TABLE_3.items() if not _is_speedup(key, row)]
    every([(key, row) for key, row in TABLE_3.items() if key not in odd], lambda case: _is_speedup(*case))
    if len(odd) != 1 or not lengths:
        raise ArithmeticError("the tables are others")
    fell = max(1 - numbers(TABLE_3[key])[0] / numbers(TABLE_1[key])[0] for key in TABLE_1)
    averages = [mean([numbers(row)[0] for row in table.values()]) for table in (TABLE_1, TABLE_3)]
    ((target, draft),) = odd
    _, tokens, speedup = TABLE_3[target, draft].split()
    own = Fraction(tokens) / Fraction(ALONE[target])
    return Finding(
        "corrected",
        {
            "longer": len(lengths),
            "faster": len(speedups),
            "fell": fell,
            "averages": averages,
            "target": target,
            "draft": draft,
            "tokens": tokens,
            "alone": ALONE[target],
            "own": decimals(own),
            "speedup": speedup,
        },
        {
            "longer_at_temperature_1": lengths,
            "faster_at_temperature_1": speedups,
            f"{target} with {draft}": {"speedup_printed": speedup, "of_tokens_per_second": decimals(own)},
        },
    )


def _is_speedup(key: tuple[str, str], row: str) -> bool:
    _, tokens, speedup = numbers(row)
    return is_ratio(tokens, Fraction(ALONE[key[0]]), speedup)


@second("O-TABLES")
def tables_again(finding: Finding) -> None:
    """Whole hundredths; Table 1's own speedups, and tokens per second where lengths rise."""
    for (target, _), row in TABLE_1.items():
        _, tokens, speedup = (int(x.replace(".", "")) for x in row.split())
        alone = int(ALONE[target].replace(".", ""))
        assert abs(100 * tokens - speedup * alone) <= 100 + alone
    pairs = [[int(table[key].split()[0].replace(".", "")) for table in (TABLE_1, TABLE_3)] for key in TABLE_1]
    assert sum(b > a for a, b in pairs) == len(finding.case["longer_at_temperature_1"]) == 3
    zero, one = (sum(column) for column in zip(*pairs, strict=True))
    assert 750 <= 10000 * (zero - one) // zero < 850
    speeds = [[int(table[key].split()[2].replace(".", "")) for table in (TABLE_1, TABLE_3)] for key in TABLE_1]
    assert sum(b < a for a, b in speeds) == 10 - len(finding.case["faster_at_temperature_1"]) == 7
    assert 6927 * 100 // 2679 == 258


@claim("O-LAYER")
def layer(effort: int) -> Finding:
    law = [Fraction(3, 5), Fraction(2, 5)]
    hat = {(): Fraction(1)}
    for path in [(), (0,), (1,)]:
        hat |= {(*path, token): hat[path] * law[token] for token in (0, 1)}
    nodes = sorted((path for path in hat if path), key=lambda path: (-hat[path], path))
    size = next(n for n in range(1, 7) if len({(len(x), x[-1]) for x in nodes[:n]}) < n)
    tree = nodes[:size]
    place = {path: at for at, path in enumerate([(), *tree])}
    return Finding(
        "false",
        {"size": size},
        {
            "law": law,
            "parent": [-1, *(place[path[:-1]] for path in tree)],
            "node": ["", *("".join("AB"[token] for token in path) for path in tree)],
            "p_hat": {"".join("AB"[token] for token in path): hat[path] for path in tree},
        },
    )


@second("O-LAYER")
def layer_again(finding: Finding) -> None:
    """The names of the nodes."""
    names = finding.case["node"][1:]
    last = [(len(name), name[-1]) for name in names]
    assert len(set(names)) == len(names)
    assert len(set(last)) < len(last)
    worth, law = finding.case["p_hat"], dict(zip("AB", finding.case["law"], strict=True))
    below = {name + token: worth[name] * p for name in names for token, p in law.items() if name + token not in names}
    assert min(worth.values()) >= max(below.values())
