"""The Medusa repository: static choices, paths of child ranks as in medusa/model/medusa_choices.py.

Version 1.0, read 2026-11-21. The root, the target's own token, is not among the choices. Level d comes from head d.
"""

from __future__ import annotations

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.engines.eagle import CHOICES_FILE, choices_text
from spectheory.engines.engine import Engine
from spectheory.engines.exports import Export, release
from spectheory.planning.fitting import Fitting
from spectheory.planning.runnable import paths

VERSIONS = {"1.0": "medusa_choices"}


def choices(tree: Tree) -> list[tuple[int, ...]]:
    """The paths of `tree`, sorted by (length, path), for `model.medusa_generate(..., medusa_choices=...)`."""
    return paths(tree, "Medusa")


def export(tree: Tree, *, version: str, heads: int | None = None) -> Export:
    """A static tree as a file of Medusa choices.

    Args:
        tree: static tree to export.
        version: version of Medusa: "1.0".
        heads: number of heads of the model, `medusa_num_heads`; None skips the check. A note names the number needed.

    Raises:
        InputError: `tree` is not a Tree, is deeper than `heads`, or has a node with more children than a head drafts.
    """
    if not isinstance(tree, Tree):
        raise InputError(f"tree must be a Tree, got {type(tree).__name__}: Medusa runs static trees only")
    key, _ = release("Medusa", version, VERSIONS)
    if heads is not None and tree.max_depth > heads:
        raise InputError(f"tree must be at most heads={heads} deep for Medusa, got depth {tree.max_depth}")
    notes = (f"for models with medusa_num_heads of at least {tree.max_depth}",)
    return Export("Medusa", key, (), {CHOICES_FILE: choices_text(tree, "Medusa")}, notes)


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest tree at the first batch size."""
    notes = () if fitting.family == "medusa" else (fitting.other_draft("Medusa's heads"),)
    return export(fitting.tree, version=version).after(*fitting.notes_of_tree, *notes)


ENGINE = Engine(name="medusa", title="Medusa", versions=VERSIONS, exporter=_fitted)
