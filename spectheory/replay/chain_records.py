"""Policy-free records of other people: the accepted length of a long chain at every position of a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spectheory.core.errors import InputError, RecordError
from spectheory.core.files import read_text
from spectheory.core.json_values import parse
from spectheory.replay.greedy import ChainText

FIELD = "acc_len"
"""Field of the lengths in a line: tokens that a cycle from each position emits, one more than it keeps."""
LONGEST = 2**31
"""Lengths must be below this number: no chain is as long, and a damaged one should not be taken for one."""


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
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            rows.append(_lengths(line, f"{path}, line {number}", drafter) - 1)
    if not rows:
        raise InputError(f"{path} holds no record: it must have one JSON object on each line")
    longest = max(int(row.max()) for row in rows)
    return [ChainText(row, longest) for row in rows]


def _lengths(line: str, where: str, drafter: str | None) -> np.ndarray:
    """The lengths of a drafter in one line."""
    try:
        held = parse(line, where)
    except RecordError as error:
        raise InputError(f'{error}; a line must be like {{"acc_eagle": {{"acc_len": [1, 3]}}}}') from error
    if not isinstance(held, dict):
        raise InputError(f'{where} is not a JSON object such as {{"acc_eagle": {{"acc_len": [1, 3]}}}}')
    known = {name: value[FIELD] for name, value in held.items() if isinstance(value, dict) and FIELD in value}
    if not known:
        like = '{"acc_eagle": {"acc_len": [1, 3]}}'
        raise InputError(f"{where} must have one drafter, got none: it must be like {like}")
    if drafter is None and len(known) != 1:
        raise InputError(f"{where} must have one drafter, got {', '.join(known)}: name one of several")
    name = next(iter(known)) if drafter is None else drafter
    if name not in known:
        raise InputError(f"{where} has no drafter {name!r}, it has {', '.join(known)}")
    lengths = known[name]
    if not isinstance(lengths, list) or not lengths or not all(map(_is_length, lengths)):
        raise InputError(
            f"{where}: {name}.{FIELD} must be a list of whole numbers of at least 1 and below 2**31, got "
            f"{_shown(lengths)}"
        )
    return np.array(lengths, np.int64)


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < LONGEST


def _shown(lengths: Any) -> str:
    """The first value that is not a length, or what is there in place of a list."""
    wrong = next((one for one in lengths if not _is_length(one)), lengths) if isinstance(lengths, list) else lengths
    if isinstance(wrong, int) and not isinstance(wrong, bool) and abs(wrong) >= LONGEST:
        return "a number that is too large"
    return f"a {type(wrong).__name__}" if isinstance(wrong, list | dict) and wrong else f"{wrong!r:.60}"
