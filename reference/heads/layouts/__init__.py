"""The layouts of checkpoints: names of tensors and fields of config.json, in three libraries and in this package.

Of public checkpoints, each layout says what was confirmed on 23 November 2026. It comes from configurations, names and
shapes that public code and issues quote; no checkpoint was at hand, so no list of tensors was read from one.
"""

from reference.heads.layouts.eagle_repository import EagleRepository
from reference.heads.layouts.layout import Layout
from reference.heads.layouts.own import Spectheory
from reference.heads.layouts.sglang import SGLang
from reference.heads.layouts.speculators import Speculators
from spectheory.core.errors import InputError

__all__ = ["LAYOUTS", "EagleRepository", "Layout", "SGLang", "Spectheory", "Speculators", "layout_named"]

LAYOUTS: tuple[Layout, ...] = (Speculators(), SGLang(), EagleRepository(), Spectheory())


def layout_named(name: str) -> Layout:
    """The layout with this name; raises InputError for an unknown name."""
    names = [layout.name for layout in LAYOUTS]
    if name not in names:
        raise InputError(f"layout must be one of {', '.join(names)}, got {name!r:.60}")
    return LAYOUTS[names.index(name)]
