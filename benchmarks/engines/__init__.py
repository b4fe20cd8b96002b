"""Measurements of engines. Each script predicts, then measures; a second call continues the record of the first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import spectheory as st
from reference.measuring import processor
from reference.part_files import check_same, short_hash
from reference.tracing import read_trace
from spectheory.core.files import read_text, write_whole

Given = Annotated[Path, typer.Option()]


def begun(file: Path, texts: list[str], *models: Path, **settings: Any) -> tuple[Any, Callable[[], None]]:
    """The record in a file, or a new one, and a function that saves it. Raises InputError for other settings."""
    settings |= {"models": ", ".join(path.name for path in models), "prompts": short_hash(texts)}
    here = st.Provenance.now(f"benchmarks.engines.{file.stem}", settings=processor() | settings)
    found = json.loads(read_text(file)) if file.exists() else {"provenance": here.to_dict(), "measured": {}}
    check_same(st.Provenance.from_dict(found["provenance"]), here)
    return found, lambda: write_whole(file, json.dumps(found) + "\n")


def lookup_tau(trace: Path, drafted: Callable[[list[int]], list[int]]) -> float:
    """Tau of what `drafted` looks up in a prompt and the text after it so far, on the texts of a trace."""
    cycles = emitted = 0
    for row in read_trace(trace):
        text, place = row["text"], 1
        while place < len(text):
            draft = drafted([*row["prompt"], *text[:place]])
            right = [a == b for a, b in zip(draft, text[place:], strict=False)]
            end = min(place + [*right, False].index(False) + 1, len(text))
            cycles, emitted, place = cycles + 1, emitted + end - place, end
    return emitted / cycles
