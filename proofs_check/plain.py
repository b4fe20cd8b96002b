"""Exact numbers and paragraphs as plain text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """`value` in the types of JSON; a number JSON cannot hold exactly becomes a string."""
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(plain(key)): plain(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=str)
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def spelled(value: Any) -> str:
    """`value` in one line, such as `A: 1/2, B: 1/2` or `(1, 0), (2/3, 1/3)`; an empty name is shown as root."""
    value = plain(value)
    if isinstance(value, dict):
        return ", ".join(f"{key or 'root'}: {_bracketed(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_bracketed(inner) or "root" for inner in value)
    return "none" if value is None else str(value)


def _bracketed(value: Any) -> str:
    left, right = "{}" if isinstance(value, dict) else "()" if isinstance(value, list) else ("", "")
    return left + spelled(value) + right


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, each in one line unless it is laid out by hand, as lists and indented lines are."""
    found = [part for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]
    return [part if re.match(r" |[-*] ", part) else " ".join(part.split()) for part in found]
