"""Solvers, verifiers, drafters, engines and claims of other installed packages, found by entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from spectheory.core.errors import InputError


def plugins(group: str, kind: type | None = None) -> list[Any]:
    """Load the objects that installed packages register in an entry-point group, in order of their names.

    An entry point may name an instance of `kind`, or a class of `kind`, which is called without arguments.

    Args:
        group: `spectheory.solvers`, `spectheory.verifiers`, `spectheory.drafters`, `spectheory.engines` or
            `spectheory.claims`.
        kind: the class of which each object must be an instance; None accepts any object.

    Raises:
        InputError: an entry point cannot be loaded, or is not of `kind`.
    """
    return [_loaded(entry, kind) for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)]


def _loaded(entry: Any, kind: type | None) -> Any:
    name = f"entry point {entry.name} = {entry.value} of group {entry.group}"
    try:
        found = entry.load()
        if kind and isinstance(found, type) and issubclass(found, kind):
            found = found()
    except Exception as error:
        raise InputError(
            f"{name} cannot be loaded: {type(error).__name__}: {error}; repair or uninstall its package"
        ) from error
    if kind and not isinstance(found, kind):
        raise InputError(f"{name} must be a {kind.__name__}, or a subclass that needs no arguments, got {found!r:.80}")
    return found
