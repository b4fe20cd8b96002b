"""Drafters: a `Drafter` holds settings and starts a `Drafting` for each text."""

from reference.drafters import drawn, dynamic, goose, lookup, recycling, static
from reference.drafters.drafter import Drafter, DrafterKind, Drafting, incompatibility
from reference.drafters.drawn import Drawn
from reference.drafters.dynamic import Searched
from reference.drafters.goose import Goose
from reference.drafters.lookup import PromptLookup
from reference.drafters.recycling import TokenRecycling
from reference.drafters.static import PlannedTree
from spectheory.core.plugins import plugins

__all__ = [
    "Drafter",
    "DrafterKind",
    "Drafting",
    "Drawn",
    "Goose",
    "PlannedTree",
    "PromptLookup",
    "Searched",
    "TokenRecycling",
    "drafters",
    "incompatibility",
]

ALL: tuple[DrafterKind, ...] = (static.KIND, drawn.KIND, dynamic.KIND, lookup.KIND, recycling.KIND, goose.KIND)
"""Every drafter of this package, with the settings under which it is compared and tested."""


def drafters() -> list[DrafterKind]:
    """The drafters of `ALL`, then those that installed packages register in the group `spectheory.drafters`.

    An entry point that cannot be used is left out with a warning; see `plugins`.
    """
    return [*ALL, *map(DrafterKind.of, plugins("spectheory.drafters", Drafter))]
