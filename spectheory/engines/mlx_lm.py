"""mlx-lm: a chain as flags. It drafts a chain for one request at a time and reports no statistics.

Version 0.32, from the wheel of 0.32.2 (mlx_lm/generate.py, mlx_lm/server.py), read 2026-11-21. The root is not counted.
"""

from __future__ import annotations

from spectheory.core.checks import check_whole
from spectheory.engines.engine import Engine, Export
from spectheory.planning.fitting import Fitting

VERSIONS = {"0.32": "--num-draft-tokens"}


def export(length: int, *, version: str, model: str) -> Export:
    """A chain of `length` tokens as flags of `mlx_lm.generate` and `mlx_lm.server`."""
    key = ENGINE.release(version)
    check_whole("length", length, 1, ": name no draft to run without speculation")
    return Export("mlx-lm", key, ("--draft-model", model, VERSIONS[key], str(length)))


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest chain at batch size 1. Version 0.32.2 does not support EAGLE."""
    fitting.require_batch_1()
    model = fitting.of_family({"model": fitting.model})
    return export(fitting.chain, version=version, model=model).after(*fitting.notes_at_first(fitting.chain, alone=True))


ENGINE = Engine(name="mlx-lm", title="mlx-lm", versions=VERSIONS, exporter=_fitted)
