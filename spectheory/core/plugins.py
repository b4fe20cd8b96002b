"""Solvers, verifiers, drafters, engines, replays and claims of other installed packages, found by entry points."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any

from spectheory.core.errors import PluginWarning


def class_name(found: Any) -> str:
    """The name of an object's class."""
    return type(found).__name__


def plugins(
    group: str, kind: type | None = None, *, taken: Iterable[str] = (), name_of: Callable[[Any], str] = class_name
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
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        package = f" of package {entry.dist.name}" if entry.dist else ""
        described = f"entry point {entry.name} = {entry.value} of group {group}{package}"
        try:
            loaded = entry.load()
            if kind and isinstance(loaded, type) and issubclass(loaded, kind):
                loaded = loaded()
        except Exception as error:
            wrong = f"cannot be loaded: {type(error).__name__}: {error}; repair or uninstall its package"
        else:
            if kind and not isinstance(loaded, kind):
                wrong = f"must be a {kind.__name__}, or a subclass that needs no arguments, got {loaded!r:.80}"
            elif (name := name_of(loaded)) in names:
                wrong = f"has the name {name}, which {names[name]} has: rename its object"
            else:
                names[name] = described
                found.append(loaded)
                continue
        warnings.warn(f"left out: {described} {wrong}", PluginWarning, stacklevel=3)
    return found
