"""The errors for input that cannot be used, and the message for an unknown name, which lists similar known names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """An argument, a file or a folder cannot be used. The message names it, its value and the repair.

    Every function of this package that refuses its input raises this class. Any other exception is a bug in spectheory.
    """


class RecordError(InputError):
    """The data are not the expected record: they are damaged, or of another kind or schema version."""


class InUseError(InputError):
    """Another process writes to a file or folder that has one writer."""


class PluginWarning(UserWarning):
    """An entry point of an installed package is left out, because it cannot be used."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that is not among the `known` ones: it lists similar names, or all if none is similar.

    An example is `unknown gpu 'h100': did you mean h100_sxm, h100_nvl or h100_pcie? 30 names are known`.
    """
    names = sorted(known)
    spelled = {known_name.lower(): known_name for known_name in names}
    near = [spelled[one] for one in difflib.get_close_matches(name.lower(), spelled, n=4, cutoff=0.5)]
    if near:
        return f"unknown {what} {name!r:.80}: did you mean {_listed(near, 'or')}? {len(names)} names are known"
    return f"unknown {what} {name!r:.80}: known names are {_listed(names, 'and')}"


def _listed(names: list[str], last: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"
