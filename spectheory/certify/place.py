"""The place in the code under test that raised an error."""

from __future__ import annotations

import traceback
from pathlib import Path

from spectheory.certify.replays import replaying_modules

OURS = Path(__file__).parent.parent


def place(error: BaseException) -> str:
    """Function, file and line that raised `error`, such as " in verify, mine.py line 12".

    It is "" if spectheory itself raised the error. If a library whose draws the certifier enumerates raised it, such as
    PyTorch, it is the line that called the library.
    """
    hidden = replaying_modules()
    frames = list(traceback.walk_tb(error.__traceback__))
    while frames and f"{frames[-1][0].f_globals.get('__name__')}.".startswith(hidden):
        frames.pop()
    if not frames or Path(frames[-1][0].f_code.co_filename).is_relative_to(OURS):
        return ""
    code, line = frames[-1][0].f_code, frames[-1][1]
    return f" in {code.co_name}, {Path(code.co_filename).name} line {line}"
