"""OPT-Tree, Tables 1 and 3."""

from __future__ import annotations

from fractions import Fraction

from proofs_check.claims import Case, Finding, claim, second
from proofs_check.printed import is_ratio, mean, table

TABLE = table("opt_tree_1_and_3", 3)
"""OPT-Tree on MT-Bench at temperatures 0 (Table 1) and 1 (Table 3), and decoding without drafts."""
PAIRS = [name[1:] for name in TABLE.names("1")]


def both(of: str, pair: tuple[str, ...]) -> list[Fraction]:
    """The length or the speedup of a target and a draft at temperatures 0 and 1."""
    return [TABLE.row(temperature, *pair, of=of)[0] for temperature in "01"]


@claim("O-TABLES")
def tables(effort: int) -> Finding:
    found = {of: [both(of, pair) for pair in PAIRS] for of in ("length", "speedup")}
    averages = {of: [*map(mean, zip(*values, strict=True))] for of, values in found.items()}
    higher = {of: [pair for pair, (zero, one) in zip(PAIRS, found[of], strict=True) if one > zero] for of in found}
    longer, faster = map(len, higher.values())
    return Finding(
        {"longer": longer, "shorter": len(PAIRS) - longer, "faster": faster, "slower": len(PAIRS) - faster}
        | {"averages": averages["length"], "drop": 1 - averages["length"][1] / averages["length"][0]}
        | {"fell": max(1 - one / zero for zero, one in found["length"]), "pairs": len(PAIRS)},
        {
            f"higher_{of}_at_temperature_1": {" with ".join(pair): both(of, pair) for pair in pairs}
            for of, pairs in higher.items()
        },
        cases={
            "pair": ({f"{of}_at_{t}": both(of, pair)[t] for of in found for t in (0, 1)} for pair in PAIRS),
            "average": [{f"{of}_at_{t}": values[t] for of, values in averages.items() for t in (0, 1)}],
        },
    )


@second("O-TABLES")
def tables_again(case: Case) -> None:
    """Second check: the speedups are tokens per second over those without drafts, but for one of Table 3."""
    wrong = []
    for temperature, *pair in [name for name in TABLE.text if name[0] in "01" and name[2] != "none"]:
        (alone,) = TABLE.row("0", pair[0], "none", of="tokens")
        _, tokens, speedup = TABLE.row(temperature, *pair)
        if not is_ratio(tokens, alone, speedup):
            wrong.append((temperature, *pair))
    assert wrong == [("1", "LLaMA-2-13B", "EAGLE")]
