"""The command that compares drafting policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.options import Force, Json, Smooth
from spectheory.cli.output import PAGE, Output, loaded, progress, require_free, show
from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.hardware.latency import Latency
from spectheory.search import RatesDraft
from spectheory.search.policy_comparison import compare_policies
from spectheory.search.standard import standard_policies

ALIKE = (
    "On rates every context is alike, so that no tree is worth more than the best static one. What a policy gains by "
    "adapting shows on drafts that differ: spectheory.compare_policies takes a sequence of them."
)
RISING = (
    "The rates rise with rank somewhere: here a policy takes the children of a node by rate, which an engine does by "
    "rank. With --smooth these agree."
)


def policies(
    acceptance: Annotated[
        Path, typer.Option("--acceptance", help="Acceptance record, from `spectheory trace`; - is standard input.")
    ],
    budget: Annotated[int, typer.Option("--budget", help="Drafted nodes that every policy may verify.")],
    latency: Annotated[
        Path | None, typer.Option("--latency", help="Latency record, from `spectheory profile`: adds time and speedup.")
    ] = None,
    context: Annotated[
        int | None, typer.Option(help="With --latency: tokens in the KV cache, default the middle one measured.")
    ] = None,
    smooth: Smooth = False,
    out: Annotated[Path | None, typer.Option("--out", help="File for the comparison.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="File for an HTML page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare the dynamic policies: how far each is from the optimum of the budget, and what drafting it costs."""
    from spectheory.report.policy_comparison import policy_page, policy_rows
    from spectheory.report.terminal import text_table

    if budget < 1:
        raise InputError(f"--budget must be at least 1 drafted node, got {budget}")
    written = Output(out, "policy_comparison"), Output(report, PAGE)
    require_free([acceptance, latency], *written, force=force)
    rates, seconds = loaded(Acceptance, acceptance), Latency.load(latency) if latency else None
    if smooth:
        rates, seconds = rates.smoothed(), seconds.smoothed() if seconds else None
    draft, timing = RatesDraft(rates), {"latency": seconds, "context": context}
    with progress("policies") as tell:
        found = compare_policies(draft, standard_policies(draft, budget, **timing), progress=tell, **timing)
    notes = [ALIKE] if rates.is_non_increasing else [ALIKE, RISING]
    if report is not None:
        write_whole(report, policy_page(f"Policies on the rates of {acceptance.name}", found, notes))
    show(found, text_table(policy_rows(found)), *notes, as_json=as_json, out=out, force=force)
    if report is not None and not as_json:
        print(f"wrote {report}")
