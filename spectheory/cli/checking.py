"""The command `check`: whether the claims of the papers are true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spectheory.cli.options import Json
from spectheory.cli.output import console, progress, require_free
from spectheory.core.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    from proofs_check.checked import check_claim
    from proofs_check.claims import in_order, named

    require_free([], report)
    chosen = [one for name in claims for one in named(name, CLAIMS)] if claims else in_order(CLAIMS)
    found = []
    with progress("claims") as tell:
        for done, name in enumerate(chosen):
            tell(done, len(chosen))
            found.append(check_claim(name, effort=2 if exhaustive else 1))
    if report is not None:
        from proofs_check.markdown import claims_markdown

        write_whole(report, claims_markdown(found))
    if as_json:
        print(json.dumps([one.to_json() for one in found], indent=1))
    else:
        _show(found)
        count = {status: sum(one.status == status for one in found) for status in COLOURS}
        told = ", ".join(f"{number} {status}" for status, number in count.items() if number)
        print(f"{len(found)} claims in {sum(one.seconds for one in found):.0f} s: {told}")
        if report is not None:
            print(f"wrote {report}")
    if any(one.finding is None for one in found):
        raise typer.Exit(1)


def _show(found: Sequence[CheckedClaim]) -> None:
    """Print one line for each claim, or everything known about each claim if there are few."""
    from rich.text import Text

    for one in found:
        status = Text(one.status, COLOURS[one.status])
        line = Text.assemble((f"{one.claim.id:12}", "bold"), " ", status, f" ({one.seconds:.2f} s)  {one.claim.place}")
        if len(found) > FEW:
            console.print(line, no_wrap=True, overflow="ellipsis")
            if one.finding is None:
                console.print(Text(f"  {one.failure}"))
            continue
        console.print(line)
        for name, words in _texts(one):
            for at, part in enumerate(words):
                console.print(Text(f"{name}: {part}" if not at else part))
        console.print()


def _texts(one: CheckedClaim) -> Iterator[tuple[str, Sequence[str]]]:
    from proofs_check.plain import paragraphs
    from proofs_check.sentences import in_words

    for place, words in one.claim.quotes.items():
        yield f"the paper, {place}", [f'"{words}"']
    yield "claim", paragraphs(in_words(one.claim.statement))
    if one.finding is None:
        yield "failure", [one.failure]
        return
    if one.claim.weight:
        yield "weight", [one.claim.weight]
    yield "what is true", paragraphs(one.truth())
    if size := one.text("size"):
        yield "how much", paragraphs(size)
    yield "evidence", [f"({one.text('method')}) {one.evidence}"]
