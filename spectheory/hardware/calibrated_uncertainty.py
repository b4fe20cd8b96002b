"""How uncertain the costs of an engine are after a calibration."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.uncertainty import CostUncertainty


@lru_cache(maxsize=8)
def uncertainty_left(calibrated: CalibratedCosts) -> CostUncertainty:
    """The uncertainty of the costs that the runs of a calibration leave, to first order around the calibrated costs."""

    def logarithms(costs: EngineCosts) -> np.ndarray:
        return np.log([calibrated.setup.seconds(run, costs) for run in calibrated.runs])

    return CostUncertainty.after_runs(logarithms, calibrated.costs, calibrated.spreads, calibrated.noise)
