"""The Medusa repository: static choices, paths of child ranks as in medusa/model/medusa_choices.py.

Version 1.0, read 2026-11-21. The root, the target's own token, is not among the choices. Level d comes from head d.
"""

from __future__ import annotations

from spectheory.core.tree import Tree
from spectheory.engines.eagle import CHOICES_FILE, choices_text
from spectheory.engines.engine import Engine, Export
from spectheory.planning.fitting import Fitting

VERSIONS = {"1.0": "medusa_choices"}


def export(tree: Tree, *, version: str) -> Export:
    """A static tree as a file of Medusa choices, whose paths are sorted by (length, path)."""
    key = ENGINE.release(version)
    notes = (f"for models with medusa_num_heads of at least {tree.max_depth}",)
    return Export("Medusa", key, (), {CHOICES_FILE: choices_text(tree, "Medusa")}, notes)


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest tree at the first batch size."""
    notes = () if fitting.family == "medusa" else (fitting.other_draft("Medusa's heads"),)
    return export(fitting.tree, version=version).after(*fitting.notes_at_first(fitting.tree), *notes)


ENGINE = Engine(name="medusa", title="Medusa", versions=VERSIONS, exporter=_fitted)
