"""The place in the code under test that raised an error."""

from __future__ import annotations

import traceback
from pathlib import Path

OURS = Path(__file__).parent.parent


def place(error: BaseException) -> str:
    """Function, file and line that raised `error`, such as " in verify, mine.py line 12"; "" in spectheory."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    if last is None or Path(last.filename).is_relative_to(OURS):
        return ""
    return f" in {last.name}, {Path(last.filename).name} line {last.lineno}"
