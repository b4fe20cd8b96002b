"""The error message for an unknown name, which lists similar known names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """`unknown gpu 'h100': did you mean h100_sxm, h100_nvl or h100_pcie?`, or all known names if none is similar."""
    names = sorted(known)
    spelled = {known_name.lower(): known_name for known_name in names}
    near = [spelled[one] for one in difflib.get_close_matches(name.lower(), spelled, n=4, cutoff=0.5)]
    if near:
        return f"unknown {what} {name!r:.80}: did you mean {_listed(near, 'or')}? {len(names)} names are known"
    return f"unknown {what} {name!r:.80}: known names are {_listed(names, 'and')}"


def _listed(names: list[str], last: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"
