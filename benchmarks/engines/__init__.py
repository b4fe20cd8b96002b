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
from spectheory.core.files import read_text, write_whole

Given = Annotated[Path, typer.Option()]


def begun(file: Path, texts: list[str], *models: Path, **settings: Any) -> tuple[Any, Callable[[], None]]:
    """The record in a file, or a new one, and a function that saves it. Raises InputError for other settings."""
    settings |= {"models": ", ".join(path.name for path in models), "prompts": short_hash(texts)}
    here = st.Provenance.now(f"benchmarks.engines.{file.stem}", settings=processor() | settings)
    found = json.loads(read_text(file)) if file.exists() else {"provenance": here.to_dict(), "measured": {}}
    check_same(st.Provenance.from_dict(found["provenance"]), here)
    return found, lambda: write_whole(file, json.dumps(found) + "\n")
