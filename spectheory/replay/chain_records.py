"""Policy-free records of other people: the accepted length of a long chain at every position of a text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.replay.greedy import ChainText

FIELD = "acc_len"
"""Field of the lengths in a line: tokens that a cycle from each position emits, one more than it keeps."""


def read_chain_records(path: Path, drafter: str | None = None) -> list[ChainText]:
    """The texts of a JSON Lines file as the simulator of SpecDecode-Bench keeps them, one for each line.

    Each line is an object with the lengths of one request, `{"acc_eagle": {"acc_len": [1, 5, 4, ...]}}`, for one or
    several drafters. The longest length of the file is taken for the recorded chain.

    Args:
        path: the file.
        drafter: name of the field of the drafter, such as `acc_eagle`; None if there is one only.

    Raises:
        InputError: the file is missing, a line is damaged or lacks the drafter, or several drafters are there and none
            is named.
    """
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            held = json.loads(line)
            known = {name: value[FIELD] for name, value in held.items() if isinstance(value, dict) and FIELD in value}
        except (ValueError, AttributeError) as error:
            raise InputError(f'{where} is not a JSON object such as {{"acc_eagle": {{"acc_len": [1, 3]}}}}') from error
        if drafter is None and len(known) != 1:
            raise InputError(f"{where} must have one drafter, got {', '.join(known) or 'none'}: name one of several")
        name = next(iter(known)) if drafter is None else drafter
        if name not in known:
            raise InputError(f"{where} has no drafter {name!r}, it has {', '.join(known) or 'none'}")
        lengths = np.asarray(known[name])
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not len(lengths) or lengths.min() < 1:
            raise InputError(f"{where}: {name}.{FIELD} must be whole numbers of at least 1, got {known[name]!r:.60}")
        rows.append(lengths - 1)
    if not rows:
        raise InputError(f"{path} holds no record: it must have one JSON object on each line")
    longest = max(int(row.max()) for row in rows)
    return [ChainText(row, longest) for row in rows]
