"""Write docs/verifiers.md: docstring, draw rules and certificate of every rule.

python docs/generate_verifiers.py
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import spectheory as st
from spectheory.core.files import write_whole

PAGE = Path(__file__).parent / "verifiers.md"
CASES = 60
HEAD = """# The verifiers

`python docs/generate_verifiers.py` writes this page from the docstrings of `spectheory.otlp` and `spectheory.verify`
and from the certifier; a test checks that it is up to date. `st.verify.TopDown(solver)` makes a tree verifier of a node
solver, from the root down. `st.verify.BottomUp(solver)` judges children before their parent: it is Block with `Naive()`
on chains, Traversal with `RRS()`, UniVer with `GreedyTopK()`, and with other solvers, such as `SpecTr()`, a verifier
that has no other name.

`p` is the target's distribution, `q` the draft's, `k` the number of drafts at a node, `V` the number of tokens in the
vocabulary, `L` the depth. The draw rules are:

{rules}

At one node with independent drafts, acceptance never falls in the order NSS, Naive, SpecInfer, SpecTr, optimum. This
order does not carry over to whole trees: with p = (0, 3/4, 1/4), q = (1/4, 3/4, 0) at the first node, p = (1, 0, 0),
q = (1/2, 1/2, 0) after it, and two draws at each of two levels, SpecTr keeps 5/4 tokens, SpecInfer and Naive 81/64, and
the optimum of each node only 39/32. `tests/search/test_orderings.py` checks both statements.

Each certificate covers at least two worlds of `spectheory.certify.strategies` for each shape, draw rule and vocabulary
size. `st.verify.Greedy` is left out: it keeps the text of greedy decoding, not the distribution p. Rules that
engines ship and that do not keep p are in [the zoo](zoo.md).
"""

NOT_HERE_HEAD = """## Published rules that are not here

| rule | why |
| --- | --- |
"""
NOT_HERE = {
    "HSD without the cap (arXiv 2601.05724, Algorithm 1)": (
        "After the first corrected token it draws the next ones, up to the length of the draft, from further "
        "residuals, and calls the target for each. A verifier of this package ends with one token, after "
        "which the target continues. `tests/verify/test_bottom_up.py` enumerates Algorithm 1: it is lossless."
    ),
    "HSD as in the code of its authors": (
        "Lossy: [the zoo](zoo.md) has `hsd-clever` and `hsd-without-cap`. `HSD()` is the paper's Algorithm 2, "
        "which equals `Block()` draft by draft."
    ),
    "SpecTr-GBV (arXiv 2604.25925)": (
        "Lossy in the code of its authors: `spectr-gbv` in [the zoo](zoo.md). The paper modifies the target "
        "of the following cycles, which needs a state from cycle to cycle; its algorithm was not at hand. Its "
        "stated optimum for one token, the sum of p (1 - (1 - min(1, q / p))^K), is below the optimum: for p "
        "= (1/2, 1/2), q = (9/10, 1/10) and K = 2 it is 17/25, and `OptimalTransport()` accepts 69/100. "
        "`BottomUp(SpecTr())` is a lossless rule for the same drafts."
    ),
    "Global resolution with a truncated set of tokens (arXiv 2511.15898)": (
        "Its output differs from p by the tolerance of its solver. A last step of rejection sampling would make it "
        "lossless, but all sets of drafts must be listed."
    ),
    "Layer verification (Cha, Cho and Yun, ICML 2026 workshop)": (
        "Only its abstract was at hand. It lifts any node solver to trees, as `BottomUp` does, but sweeps the "
        "tree layer by layer."
    ),
    "RheoSampling (arXiv 2609.21827)": (
        "Not read: only summaries were at hand. It gives each drafted token one probability for building the "
        "tree and another for verifying it."
    ),
}


def fields(rule: Any) -> dict[str, str]:
    """The texts after `Acceptance:`, `Cost:` and `Source:` in the docstring of a rule."""
    text = inspect.getdoc(type(rule)) or ""
    found = re.findall(r"^(Acceptance|Cost|Source): (.*?)(?=^\w+:|^$|\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: " ".join(said.split()) for name, said in found}


def row(rule: Any, cases: int) -> str:
    """The row of one rule in the table; certifies the rule."""
    certificate = st.certify_verifier(rule, cases=cases)
    draws = ", ".join(drawn.name for drawn in rule.rules)
    certified = f"{certificate.verdict.name}: {certificate.cases} worlds, {certificate.drafts:,} drafts"
    return f"| `{rule!r}` | {draws} | {certified} | {fields(rule)['Cost']} |"


def section(rule: Any) -> str:
    """The section of one rule, from its docstring."""
    said = fields(rule)
    return f"### {type(rule).__name__}\n\n- Acceptance: {said['Acceptance']}\n- Source: {said['Source']}\n"


def rules() -> list[Any]:
    """Every node solver, in each of its settings, then every path and tree verifier."""
    nodes = [one for solver in st.otlp.solvers() for one in (solver, *solver.variants())]
    return [*nodes, *st.verify.verifiers()]


def page(cases: int = CASES) -> str:
    """The whole page."""
    draw_rules = "\n".join(f"- `{rule.name}`: {rule.value}" for rule in st.DrawRule)
    every = rules()
    parts = [
        HEAD.format(rules=draw_rules),
        "| rule | lossless for draw rules | certificate, in exact fractions | cost |",
    ]
    parts += ["| --- | --- | --- | --- |", *(row(rule, cases) for rule in every)]
    parts += ["", "## Acceptance and sources", ""]
    parts += [section(rule) for rule in {type(rule): rule for rule in every}.values()]
    not_here = "".join(f"| {name} | {why} |\n" for name, why in NOT_HERE.items())
    return "\n".join([*parts, NOT_HERE_HEAD + not_here])


if __name__ == "__main__":
    write_whole(PAGE, page())
    print(f"wrote {PAGE}")
