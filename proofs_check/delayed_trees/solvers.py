"""The five node solvers (Section B): what they emit, in general, for a single draft and on a path."""

from __future__ import annotations

from collections.abc import Iterator

from proofs_check.claims import Finding, claim
from proofs_check.delayed_trees.solver_factor import bracket
from proofs_check.delayed_trees.solver_printed import (
    KSeq,
    naive,
    nss,
    output,
    over,
    settings,
    spec_infer,
    tournaments,
)
from proofs_check.small_drafts import Law


@claim("D-OTLP")
def otlp_solvers(effort: int) -> Finding:
    def plays(p: Law, q: Law, k: int) -> Iterator[dict[str, Law]]:
        rules = [nss, naive, spec_infer, KSeq(bracket(p, q, k, 4)[1]), *tournaments(len(p))]
        yield from ({"p": p, "emitted": output(rule, p, q, k)} for rule in rules)

    every_one = [*settings(effort)]
    return Finding(
        {"count": len(every_one), "over": over(effort)},
        cases={"play": (play for setting in every_one for play in plays(*setting))},
    )
