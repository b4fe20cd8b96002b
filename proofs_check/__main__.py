"""`python -m proofs_check [CLAIM ...] [--json]`: run the checks and print the verdicts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

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
    running = track(chosen, "checking", console=Console(stderr=True), transient=True)
    verdicts = [CLAIMS[name]() for name in running]
    if as_json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=1, default=str))
    else:
        Console().print(_table(verdicts))


def _table(verdicts: list[Verdict]) -> Table:
    table = Table("claim", "verdict", "as printed", "what is true", show_lines=True)
    for verdict in verdicts:
        word = f"[{COLOURS[verdict.word]}]{verdict.word}[/]"
        table.add_row(verdict.claim, word, verdict.statement, verdict.truth or "")
    return table


if __name__ == "__main__":
    typer.run(main)
