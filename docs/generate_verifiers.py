"""Fill in the tables of docs/verifiers.md or docs/zoo.md: docstrings, certificates, and how much they took.

python docs/generate_verifiers.py verifiers
python docs/generate_verifiers.py zoo
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import spectheory as st
from spectheory.certify import certify_in_worlds
from spectheory.certify.certificate import number
from spectheory.certify.zoo import SPECIMENS, STEPS, Specimen, StepSpecimen
from spectheory.core.files import write_whole

DOCS = Path(__file__).parent
CASES = 60


def filled(page: str, head: str, lines: Iterable[str], until: str = "\n\n") -> str:
    """The page with these lines after the line that begins with `head` and the line below it, up to `until`."""
    start = page.index("\n", page.index("\n", page.index(f"\n{head}") + 1) + 1) + 1
    end = page.find(until, start)
    return page[:start] + "\n".join(lines) + (page[end:] if end >= 0 else "\n")


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


def verifiers(page: str, cases: int = CASES) -> str:
    """The page of verifiers."""
    every = rules()
    page = filled(page, "| rule | lossless for draw rules", (row(rule, cases) for rule in every))
    sections = (section(rule) for rule in {type(rule): rule for rule in every}.values())
    return filled(page, "## Acceptance and sources", sections, "\n## ")


def specimen_row(specimen: Specimen) -> str:
    """The row of a rule of the zoo; certifies it."""
    found = st.certify_verifier(specimen.given, policies=specimen.policies, cases=80, zero_coins=specimen.zero_coins)
    off = number(found.counterexample.total_variation) if found.counterexample else ""
    about = " ".join(specimen.about.split())
    return f"| {specimen.name} | {about} | {found.verdict.name} | {found.cases} | {found.drafts:,} | {off} |"


def step_row(step: StepSpecimen) -> str:
    """The row of a step of the zoo; tests it."""
    alpha = 0.01 if step.is_lossless else 1e-6
    found = certify_in_worlds([step.play], cycles=1, alpha=alpha, tv=0.05)
    return f"| {step.name} | {' '.join(step.about.split())} | {found.verdict.name} | {found.samples:,} |"


def zoo(page: str) -> str:
    """The page of the zoo."""
    page = filled(page, "| rule | what it does", map(specimen_row, SPECIMENS))
    return filled(page, "| step | what it does", map(step_row, STEPS))


if __name__ == "__main__":
    file = DOCS / f"{sys.argv[1]}.md"
    fill = {"verifiers": verifiers, "zoo": zoo}[sys.argv[1]]
    write_whole(file, fill(file.read_text(encoding="utf-8")))
    print(f"wrote {file}")
