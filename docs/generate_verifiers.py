"""Write docs/verifiers.md: docstring, draw rules and certificate of every rule.

python docs/generate_verifiers.py
"""

from __future__ import annotations

import inspect
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import spectheory as st
from spectheory.certify.certificate import number
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
size. `st.verify.Greedy` is left out: it keeps the text of greedy decoding, not the distribution p.
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
        "Its output differs from p by the tolerance of its solver. `GlobalResolution()` adds the step that "
        "makes it lossless, and lists all sets of drafts."
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
LOSSY_HEAD = """## Lossy rules that engines ship

`st.lossy` has rules that do not keep p. `lossy_step(rule, p, q, k)` is what a rule emits at one node, over all drafts,
with its total variation and its acceptance beside the best lossless one. `text_error(rule, world, policy, length)`
decodes all texts of a length: the exact total variation, the bounds from its cycles and from its steps, and the tokens
per target call beside those of a lossless verifier. `text_bound` bounds texts of any length by the largest error of a
step. Along texts of real models, the mean of the summed errors of the steps is an estimate of the bound from steps.

The table is for p = (1/2, 1/3, 1/6) and q = (1/6, 1/3, 1/2) at all nodes, one draft a node, two levels, and texts of 3
tokens; `FLy` has three levels. The error is the total variation to p, or to greedy decoding for rules that replace it.

| rule | error of a step | accepted, best lossless | error of text | by cycles | by steps | tokens per call, lossless |
| --- | --- | --- | --- | --- | --- | --- |
"""
LOSSY = (
    st.lossy.Typical(Fraction(1, 4), 1),
    st.lossy.AcceptanceThreshold(accumulated=Fraction(3, 4)),
    st.lossy.AcceptanceThreshold(single=Fraction(1, 3)),
    st.lossy.RelaxedAcceptance(2, Fraction(1, 4)),
    st.lossy.Mismatch(target=st.lossy.TopK(2)),
    st.lossy.Mismatch(draft=st.lossy.TopK(2)),
    st.lossy.Mismatch(drawn=st.lossy.TopP(Fraction(3, 4))),
    st.lossy.FLy(window=2),
)


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


def lossy_row(rule: Any) -> str:
    """The row of one lossy rule."""
    p, q = (np.array([Fraction(x, 6) for x in weights], dtype=object) for weights in ((3, 2, 1), (1, 2, 3)))
    node_wise = isinstance(rule, st.lossy.LossyRule)
    policy = st.Levels((1, 1) if node_wise else (1, 1, 1))
    text = st.lossy.text_error(rule, st.World.constant(p, q), policy, 3)
    step = st.lossy.lossy_step(rule, p, q) if node_wise else None
    cells = [
        number(step.total_variation) if step else "",
        f"{number(step.acceptance)}, {number(step.lossless_acceptance)}" if step else "",
        f"{float(text.total_variation):.4f}",
        f"{float(text.by_cycles):.4f}",
        f"{float(text.by_steps):.4f}" if step else "",
        f"{float(text.tokens_per_call):.3f}, {float(text.lossless_tokens_per_call):.3f}",
    ]
    return f"| `{rule!r}` | {' | '.join(cells)} |"


def lossy() -> str:
    """The section of lossy rules."""
    rows = "\n".join(map(lossy_row, LOSSY))
    sources = "\n".join(section(rule) for rule in {type(rule): rule for rule in LOSSY}.values())
    return f"{LOSSY_HEAD}{rows}\n\n{sources}"


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
    return "\n".join([*parts, NOT_HERE_HEAD + not_here, lossy()])


if __name__ == "__main__":
    write_whole(PAGE, page())
    print(f"wrote {PAGE}")
