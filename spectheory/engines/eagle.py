"""The EAGLE repository: an envelope for EAGLE-2 and 3, static choices for EAGLE-1.

Version "1" is EAGLE-1 (eagle/model/choices.py and utils_c.py at 08dc06cc), "2" and "3" are EAGLE-2 and 3
(`EaModel.from_pretrained`), read 2026-11-21. For an envelope of L levels and n nodes, `total_token` is n + 1, because
it counts the root, and `depth` is L - 1, because it counts the levels after the first.
"""

from __future__ import annotations

import json

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.engines.engine import Engine, Export
from spectheory.planning.envelope import Envelope
from spectheory.planning.fitting import UNNAMED, Fitting

SETTINGS_FILE = "from_pretrained.json"
CHOICES_FILE = "choices.py"
TOP_K = 10
"""Number of children that EAGLE-1 drafts per node: `TOPK` in their utils."""

VERSIONS = {"1": "static", "2": "dynamic", "3": "dynamic"}


def export(plan: Envelope | Tree, *, version: str) -> Export:
    """The plan as keyword arguments of `EaModel.from_pretrained` (EAGLE-2 and 3), or as a list of choices (EAGLE-1)."""
    key = ENGINE.release(version)
    kind = VERSIONS[key]
    if isinstance(plan, Envelope) and kind == "dynamic":
        settings = {"total_token": plan.nodes + 1, "depth": plan.levels - 1, "top_k": plan.branching}
        return Export("EAGLE", key, (), {SETTINGS_FILE: json.dumps(settings, indent=1) + "\n"})
    if isinstance(plan, Tree) and kind == "static":
        if plan.max_depth < 2:
            raise InputError(f"tree must be at least 2 deep for EAGLE-1, got depth {plan.max_depth}: plan a deeper one")
        return Export("EAGLE", key, (), {CHOICES_FILE: choices_text(plan, "EAGLE-1")})
    wanted = "an Envelope" if kind == "dynamic" else "a Tree"
    raise InputError(f"plan must be {wanted} for EAGLE-{key}, got {type(plan).__name__}")


def choices_text(tree: Tree, engine: str) -> str:
    """The paths of ranks of `tree`, sorted by (length, path), as a line of Python."""
    if tree.budget == 0:
        raise InputError(f"tree must have a drafted node for {engine}, got none: run the engine without speculation")
    found = sorted(map(list, tree.to_paths()), key=lambda path: (len(path), path))
    widest = max(max(path) for path in found) + 1
    if widest > TOP_K:
        raise InputError(f"tree must have at most TOPK={TOP_K} children at a node for {engine}, got {widest}")
    return f"spectheory_{tree.budget} = {found}\n"


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest tree for EAGLE-1, or the fastest envelope for EAGLE-2 and 3, at the first batch size."""
    other = f"planned for {fitting.draft or UNNAMED}, which by its name is not an EAGLE head: rates and times differ"
    tree, notes = fitting.tree, () if fitting.family.startswith("eagle") else (other,)
    if VERSIONS[version] == "static":
        return export(tree, version=version).after(*fitting.notes_at_first(tree), *notes)
    found = fitting.first_envelope
    return export(found.envelope, version=version).after(*fitting.notes_at_first(found), *notes)


ENGINE = Engine(name="eagle", title="EAGLE", versions=VERSIONS, parts=1, exporter=_fitted)
