"""The command `policies`: drafting policies compared on measured acceptance rates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.options import Force, Json, RatesFile, Smooth, rates_of
from spectheory.cli.output import progress, require_free, show
from spectheory.core.errors import InputError
from spectheory.hardware.latency import Latency
from spectheory.search import RatesDraft
from spectheory.search.policy_comparison import compare_policies
from spectheory.search.standard_policy_set import standard_policies

ALIKE = (
    "Rates are the same in every context, so no tree is better than the best static tree. What a policy gains by "
    "adapting to the context shows only on drafts that differ: give several drafts to compare_policies."
)
RISING = (
    "Some rates increase with rank. Here a policy takes the children of a node in order of rate, but an engine takes "
    "them in order of rank. With --smooth both orders are the same."
)


def policies(
    acceptance: RatesFile,
    budget: Annotated[int, typer.Option(help="Maximum number of drafted tokens per cycle.")],
    latency: Annotated[
        Path | None,
        typer.Option(help="Latency record, from `spectheory profile`. Adds times and speedups to the comparison."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            help="With --latency: number of tokens in the KV cache.", show_default="middle of the measured contexts"
        ),
    ] = None,
    smooth: Smooth = False,
    out: Annotated[Path | None, typer.Option(help="File for the comparison.")] = None,
    report: Annotated[Path | None, typer.Option(help="File for a report as an HTML page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare the policies that choose a draft tree in every cycle.

    For each policy this shows how far it is from the best tree of the same budget, and how much drafting it needs.
    """
    from spectheory.report.policy_comparison import policy_page, policy_rows

    if budget < 1:
        raise InputError(f"--budget must be at least 1 drafted node, got {budget}")
    require_free([acceptance, latency], out, report, force=force)
    rates, seconds = rates_of(acceptance), Latency.load(latency) if latency else None
    if smooth:
        rates, seconds = rates.smoothed(), seconds.smoothed() if seconds else None
    draft, timing = RatesDraft(rates), {"latency": seconds, "context": context}
    with progress("policies") as tell:
        found = compare_policies(draft, standard_policies(draft, budget, **timing), progress=tell, **timing)
    notes = [ALIKE] if rates.is_non_increasing else [ALIKE, RISING]
    title = f"Policies on the rates of {acceptance.name}"
    pages = {} if report is None else {report: policy_page(title, found, notes)}
    show(found, policy_rows(found), *notes, as_json=as_json, out=out, pages=pages)
