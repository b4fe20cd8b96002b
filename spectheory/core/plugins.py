"""Solvers, verifiers, drafters, engines, replays and claims of other installed packages, found by entry points."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from spectheory.core.errors import InputError, PluginWarning


def class_name(found: Any) -> str:
    """The name of an object's class."""
    return type(found).__name__


def plugins(
    group: str,
    kind: type | None = None,
    *,
    taken: Iterable[str] = (),
    name_of: Callable[[Any], str] = class_name,
) -> list[Any]:
    """Load the objects that installed packages register in an entry-point group, in order of their names.

    An entry point may name an instance of `kind`, or a class of `kind`, which is called without arguments. An entry
    point that cannot be used is left out with a PluginWarning, so that one damaged package does not disable the others.

    Args:
        group: `spectheory.solvers`, `spectheory.verifiers`, `spectheory.drafters`, `spectheory.engines` or
            `spectheory.claims`.
        kind: the class of which each object must be an instance; None accepts any object.
        taken: names that no object may have, because this package has an object of that name.
        name_of: gives the name of an object.
    """
    names, found = dict.fromkeys(taken, "spectheory"), []
    for entry in _entries(group):
        try:
            loaded = _loaded(entry, kind)
            name = name_of(loaded)
        except InputError as error:
            warnings.warn(f"left out: {error}", PluginWarning, stacklevel=3)
            continue
        if name in names:
            warnings.warn(
                f"left out: {_described(entry)} has the name {name}, which {names[name]} has: rename its object",
                PluginWarning,
                stacklevel=3,
            )
            continue
        names[name] = _described(entry)
        found.append(loaded)
    return found


def _entries(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def _described(entry: EntryPoint) -> str:
    package = f" of package {entry.dist.name}" if entry.dist else ""
    return f"entry point {entry.name} = {entry.value} of group {entry.group}{package}"


def _loaded(entry: EntryPoint, kind: type | None) -> Any:
    try:
        found = entry.load()
        if kind and isinstance(found, type) and issubclass(found, kind):
            found = found()
    except Exception as error:
        raise InputError(
            f"{_described(entry)} cannot be loaded: {type(error).__name__}: {error}; repair or uninstall its package"
        ) from error
    if kind and not isinstance(found, kind):
        raise InputError(
            f"{_described(entry)} must be a {kind.__name__}, or a subclass that needs no arguments, got {found!r:.80}"
        )
    return found
