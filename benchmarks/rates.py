"""Tables of rates for the benchmarks of searches."""

from __future__ import annotations

import numpy as np

from spectheory.core.acceptance import Acceptance


def measured_like(depths: int, ranks: int, noise: float) -> Acceptance:
    """(depths, ranks) rates that fall with rank as measured ones do; `noise` breaks the order."""
    rng = np.random.default_rng(0)
    table = 0.62 * 0.98 ** np.arange(depths)[:, None] * np.arange(1, ranks + 1.0) ** -1.7
    table *= np.exp(noise * rng.standard_normal(table.shape))
    return Acceptance(table / np.maximum(1, table.sum(1, keepdims=True) / 0.95))


FALLING, NOISY = measured_like(8, 16, 0), measured_like(8, 16, 0.3)
SHUFFLED = Acceptance(np.random.default_rng(0).permuted(FALLING.table, axis=1))
