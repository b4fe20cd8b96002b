"""What the commands share: where they print, how they show progress, the options of several of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from spectheory.records import Record

console = Console(stderr=False)
errors = Console(stderr=True)

TargetFolder = Annotated[Path | None, typer.Option("--target", help="Folder of the target, default the shipped one.")]
DraftFolder = Annotated[Path | None, typer.Option("--draft", help="Folder of the draft, default the shipped one.")]
PromptFile = Annotated[
    Path | None, typer.Option("--prompts", help="JSON Lines with a field 'text', default the shipped held-out ones.")
]
Skip = Annotated[int, typer.Option("--skip", min=0, help="Prompts of the file to pass over.")]
Count = Annotated[int, typer.Option("--count", help="Number of prompts.")]
PromptTokens = Annotated[int, typer.Option("--prompt-tokens", help="Tokens of each prompt.")]
NewTokens = Annotated[int, typer.Option("--new-tokens", help="Tokens to generate for each prompt.")]
Temperature = Annotated[float, typer.Option("--temperature", help="0 is greedy decoding.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every random stream.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of tables.")]


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error where that is a terminal, gone when done; call it with (finished, total)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(label, total=None)
        yield lambda finished, total: bar.update(task, completed=finished, total=total)


def require_free(read: Sequence[str | Path], kind: str | None, *written: Path | None) -> None:
    """Check that nothing that was `read`, and no record of another `kind`, is about to be written over.

    `kind` is that of the first of `written`, None where it is no record, as the others are not.

    Raises:
        ValueError: a file is one of those that are read, is written twice, or holds a record of another kind.
    """
    taken = {Path(path).resolve(): "an input of this command" for path in read}
    for path in filter(None, written):
        here = path.resolve()
        found = taken.get(here) or _other_record(here, kind if path is written[0] else None)
        if found:
            raise ValueError(f"{path} is {found}: writing would replace it, name another file")
        taken[here] = "written already by this command"


def _other_record(path: Path, kind: str | None) -> str | None:
    """What record `path` holds, in words, where it holds one of another kind."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    there = found.get("kind") if isinstance(found, dict) and "schema" in found else None
    return f"a record of kind {there!r}" if there and there != kind else None


def show(record: Record, *renderables: RenderableType, as_json: bool, out: Path | None = None) -> None:
    """Save `record` to `out` where one is named, and print it: as JSON, or as the renderables."""
    if out is not None:
        require_free([], record.kind, out)
        record.save(out)
    if as_json:
        print(json.dumps(record.to_dict(), indent=1))
        return
    for renderable in renderables:
        console.print(renderable)
    if out is not None:
        print(f"wrote {out}")
