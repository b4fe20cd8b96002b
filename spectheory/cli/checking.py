"""The command `check`: whether the claims of the papers are true."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spectheory.cli.options import Json
from spectheory.cli.output import console, progress, require_free
from spectheory.core.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proofs_check.checked import CheckedClaim

FEW = 3
"""Up to this many claims are shown in full, more claims in a line each."""
COLOURS = {"holds": "green", "corrected": "yellow", "false": "red", "failed": "bold reverse red"}


def check(
    claims: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Claims to check, such as G-P1-LB, or G for all of Goose. Default: all."),
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Check more cases. This takes some minutes.")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="File for a report in Markdown.")] = None,
    as_json: Json = False,
) -> None:
    """Check whether the claims of the papers are true. The exit status is 1 if a check fails."""
    from proofs_check import CLAIMS
    from proofs_check.checked import check_claim, claims_markdown
    from proofs_check.claims import in_order, named

    require_free([], report)
    chosen = [one for name in claims for one in named(name, CLAIMS)] if claims else in_order(CLAIMS)
    found = []
    with progress("claims") as tell:
        for done, name in enumerate(chosen):
            tell(done, len(chosen))
            found.append(check_claim(name, effort=2 if exhaustive else 1))
    if report is not None:
        write_whole(report, claims_markdown(found))
    if as_json:
        print(json.dumps([one.to_json() for one in found], indent=1))
    else:
        _show(found)
        count = Counter(str(one.status) for one in found)
        told = ", ".join(f"{count[status]} {status}" for status in COLOURS if count[status])
        print(f"{len(found)} claim{'s' * (len(found) != 1)} in {sum(one.seconds for one in found):.0f} s: {told}")
    if any(one.finding is None for one in found):
        raise typer.Exit(1)


def _show(found: Sequence[CheckedClaim]) -> None:
    """Print one line for each claim, or everything known about each claim if there are few."""
    from rich.text import Text

    from proofs_check.sentences import in_words

    for one in found:
        status = Text(one.status, COLOURS[one.status])
        line = Text.assemble((f"{one.claim.id:12}", "bold"), " ", status, f" ({one.seconds:.2f} s)  {one.claim.place}")
        if len(found) > FEW:
            console.print(line, no_wrap=True, overflow="ellipsis")
            if one.finding is None:
                console.print(Text(f"  {one.failure}"))
            continue
        console.print(line)
        told = {f"the paper, {place}": f'"{words}"' for place, words in one.claim.quotes.items()}
        told |= {"claim": in_words(one.claim.statement), "failure": one.failure}
        if one.finding is not None:
            evidence = f"({one.text('method')}) {one.evidence}"
            told |= {"weight": one.claim.weight or "", "what is true": one.truth()}
            told |= {"how much": one.text("size") or "", "evidence": evidence}
        for name, words in told.items():
            if words:
                console.print(Text(f"{name}: {words}"))
        console.print()
