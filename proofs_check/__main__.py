"""`python -m proofs_check [CLAIM ...] [--json]`: run the checks and print the verdicts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from proofs_check import CLAIMS, Verdict

COLOURS = {"holds": "green", "corrected": "yellow", "false": "red"}


def main(
    claims: Annotated[list[str] | None, typer.Argument(help="Claim ids, default all.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with evidence and counterexamples.")] = False,
) -> None:
    """Check the papers' claims."""
    chosen = claims or list(CLAIMS)
    if unknown := [name for name in chosen if name not in CLAIMS]:
        raise typer.BadParameter(f"unknown claim {', '.join(unknown)}; known are {', '.join(CLAIMS)}")
    progress = track(chosen, "checking", console=Console(stderr=True), transient=True)
    verdicts = [CLAIMS[name]() for name in progress]
    if as_json:
        print(json.dumps([{"claim": found.claim} | asdict(found) for found in verdicts], indent=1, default=str))
    else:
        Console().print(_table(verdicts))


def _table(verdicts: list[Verdict]) -> Table:
    table = Table("claim", "verdict", "as printed", "what is true", show_lines=True)
    for found in verdicts:
        word = Text(found.verdict, COLOURS[found.verdict])
        table.add_row(found.claim, word, Text(found.statement), Text(found.truth or ""))
    return table


if __name__ == "__main__":
    typer.run(main)
