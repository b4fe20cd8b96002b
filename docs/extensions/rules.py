"""The directive `rules`: tables of the verifiers and of the zoo, from their docstrings and from the certifier.

A build with the tag `certified` (`make docs`) certifies each rule, which takes minutes. Others leave these columns out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import spectheory as st
from spectheory.certify import certify_in_worlds
from spectheory.certify.certificate import number
from spectheory.certify.zoo import SPECIMENS, STEPS, Specimen, StepSpecimen
from spectheory.report.tables import TextTable, markdown_table

Row = dict[str, str]
"""The cells of a row by the heads of their columns."""


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("rules", Rules)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Rules(SphinxDirective):
    """`rules:: verifiers`, `rules:: specimens` or `rules:: steps`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        rules, described, certified = TABLES[self.arguments[0]]
        self.env.note_reread()
        rows = [described(rule) for rule in rules]
        if self.env.app.tags.has("certified"):
            rows = [row | certified(rule) for row, rule in zip(rows, rules, strict=True)]
        table = TextTable("", tuple(rows[0]), tuple(tuple(row.values()) for row in rows))
        return self.parse_text_to_nodes(markdown_table(table))


def verifier(rule: Any) -> Row:
    draws = ", ".join(drawn.name for drawn in rule.rules)
    cost = re.search(r"^Cost: (.*?)(?=^\w+:|^$|\Z)", inspect.getdoc(type(rule)) or "", re.MULTILINE | re.DOTALL)
    return {"rule": f"`{rule!r}`", "lossless for draw rules": draws, "cost": " ".join(cost[1].split()) if cost else ""}


def certified_verifier(rule: Any) -> Row:
    found = st.certify_verifier(rule, cases=60)
    return {"certificate": f"{found.verdict.name}: {found.cases} worlds, {found.drafts:,} drafts"}


def specimen(one: Specimen | StepSpecimen) -> Row:
    return {"rule": one.name, "what it does": " ".join(one.about.split())}


def certified_specimen(one: Specimen) -> Row:
    found = st.certify_verifier(one.given, policies=one.policies, cases=80, zero_coins=one.zero_coins)
    off = number(found.counterexample.total_variation) if found.counterexample else ""
    return {
        "verdict": found.verdict.name,
        "worlds": str(found.cases),
        "drafts": f"{found.drafts:,}",
        "total variation": off,
    }


def certified_step(one: StepSpecimen) -> Row:
    found = certify_in_worlds([one.play], cycles=1, alpha=0.01 if one.is_lossless else 1e-6, tv=0.05)
    return {"verdict": found.verdict.name, "runs": f"{found.samples:,}"}


SOLVERS = [rule for solver in st.otlp.solvers() for rule in (solver, *solver.variants())]
TABLES: dict[str, tuple[Sequence[Any], Callable[[Any], Row], Callable[[Any], Row]]] = {
    "verifiers": ([*SOLVERS, *st.verify.verifiers()], verifier, certified_verifier),
    "specimens": (SPECIMENS, specimen, certified_specimen),
    "steps": (STEPS, specimen, certified_step),
}
