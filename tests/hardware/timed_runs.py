"""Synthetic runs of known costs, and their calibration, for the tests of `st.calibrate`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import spectheory as st
from spectheory.engines import Run
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.gpus import gpu
from spectheory.hardware.models import model
from spectheory.hardware.timed_setup import TimedSetup

PAIR: dict[str, Any] = {"gpu": "h100_sxm", "target": "llama-3.1-8b", "draft": "eagle3-llama-3.1-8b"}
SHIPPED = EngineCosts.of("vllm")
TRUE = replace(
    SHIPPED, bandwidth_share=0.72, step_seconds=2e-3, sequence_seconds=40e-6, spec_step_seconds=1e-3, level_seconds=4e-4
)
"""The costs of the engine that the synthetic runs are of."""
PLAIN = [Run("plain", batch, 512, 1.0, source=f"plain {batch}") for batch in (1, 64)]
CHAIN = Run("speculative", 1, 512, 1.0, tokens=6, depth=5, tau=3.0, source="chain")
TREE = Run("speculative", 4, 512, 1.0, tokens=61, depth=6, tau=3.5, source="tree")
FORWARD = Run("forward", 2, 512, 1.0, tokens=16, source="forward")


def setup_of(**changed: Any) -> TimedSetup:
    known: dict[str, Any] = {"draft": model(PAIR["draft"]), "gpus": 1, "parallel": "tensor", "draft_gpus": None}
    known |= {"target": model(PAIR["target"]), "gpu": gpu("h100_sxm"), "drafting": "levels"}
    return TimedSetup(**(known | changed))


def timed(*runs: Run, costs: EngineCosts = TRUE) -> list[Run]:
    """The runs with the seconds that they take with `costs`."""
    return [replace(run, seconds=setup_of().seconds(run, costs)) for run in runs]


def calibrated(*runs: Run, **changed: Any) -> CalibratedCosts:
    return st.calibrate(runs, **{**PAIR, **changed})


EVERY = timed(*PLAIN, CHAIN, TREE, FORWARD)
