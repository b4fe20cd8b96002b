"""`TimedSetup`: the models and GPUs on which runs are timed, and the seconds of a run that the roofline predicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from spectheory.core.errors import InputError
from spectheory.hardware.engine_costs import NAMES, EngineCosts
from spectheory.hardware.gpus import Gpu
from spectheory.hardware.kernel_curves import KernelCurve
from spectheory.hardware.latency import Drafting, Latency
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.placement import Parallel
from spectheory.hardware.roofline import Roofline
from spectheory.hardware.runs import Run, Step

WIDEST = 10
"""Nodes of a level that a draft expands at most, in the trees of EAGLE-2 and EAGLE-3."""
PEAK = EngineCosts(
    **{name: 1.0 if name.endswith("_share") else 0.0 for name in NAMES} | {"text_share": 1e-9, "batch_share": 1e-9}
)
"""The costs of an engine that reaches all peak rates without overheads, with all tokens on the same experts."""


@dataclass(frozen=True)
class TimedSetup:
    """The models and GPUs on which runs are timed.

    Attributes:
        gpu: the type of the GPUs.
        target: the target in the formats that run.
        draft: the draft; None if drafts are looked up (n-gram, suffix), or if nothing is drafted.
        gpus: the number of GPUs.
        parallel: how the GPUs share a model, see `Roofline`.
        draft_gpus: the number of GPUs that share the draft; None for all.
        drafting: whether the draft runs once for each drafted level, or once for all.
        curves: measured curves of kernels that the forwards follow, see `Roofline`.
    """

    gpu: Gpu
    target: ModelConfig
    draft: ModelConfig | None
    gpus: int
    parallel: Parallel
    draft_gpus: int | None
    drafting: Drafting
    curves: tuple[KernelCurve, ...] = ()

    def __post_init__(self) -> None:
        self.roofline(1, 0, PEAK)
        for name in ("target", "draft"):
            if (model := getattr(self, name)) is not None:
                object.__setattr__(self, name, replace(model, design=None, prediction=None))

    def roofline(self, batch: int, context: int, costs: EngineCosts, prefill_tokens: float = 0.0) -> Roofline:
        """The roofline for `batch` sequences with these costs.

        Raises:
            InputError: a number is out of range.
        """
        place = self.parallel, self.draft_gpus, prefill_tokens
        return Roofline(self.gpu, self.gpus, batch, context, costs, *place, curves=self.curves)

    def latency(self, batch: int, context: int, costs: EngineCosts, engine: str) -> Latency:
        """The latency for `batch` sequences with these costs.

        Raises:
            InputError: as `Latency.roofline`.
        """
        return Latency.roofline(**vars(self), batch=batch, context=context, costs=costs, engine=engine)

    def seconds(self, run: Run | Step, costs: EngineCosts) -> float:
        """The predicted seconds of a run or a step. Between whole batch sizes they are interpolated linearly.

        Raises:
            InputError: a number is out of range.
        """
        below, above = math.floor(run.batch), math.ceil(run.batch)
        first = self._seconds(run, below, costs)
        return first if above == below else first + (run.batch - below) * (self._seconds(run, above, costs) - first)

    def least_seconds(self, run: Run) -> float:
        """Seconds that a run takes at least: its target forward at the peak rates, without overheads."""
        place = replace(self.roofline(math.floor(run.batch), math.floor(run.context), PEAK), curves=())
        parts = place.forward_parts(self.target, [run.tokens])
        operations, _ = float(parts.pop("operations")[0]), parts.pop("overlap")
        return max(operations, float(sum(seconds[0] for seconds in parts.values())))

    def require_memory(self, run: Run) -> None:
        """Check that the models and the caches of a run fit into the whole memory of the GPUs.

        Raises:
            InputError: they do not fit; the message names the run and says what would fit.
        """
        draft = self.draft if run.kind == "speculative" else None
        try:
            self.roofline(math.ceil(run.batch), round(run.context), PEAK).require_memory(self.target, draft)
        except InputError as error:
            raise InputError(f"{run.where}{error}") from None

    def _seconds(self, run: Run | Step, batch: int, costs: EngineCosts) -> float:
        place = self.roofline(batch, round(run.context), costs, run.prefill_tokens)
        forward = float(place.forward_seconds(self.target, [run.tokens])[0])
        if run.kind == "forward":
            return forward
        draft = self.draft if run.kind == "speculative" else None
        overheads = place.overheads(self.target, draft)
        if run.kind == "plain":
            return forward + overheads.plain_overhead_seconds
        nodes = run.tokens - 1
        masked = nodes * overheads.tree_mask_seconds if nodes > run.depth else 0.0
        drafting = self._drafting_seconds(place, run, overheads.level_overhead_seconds)
        return forward + drafting + overheads.overhead_seconds + masked

    def _drafting_seconds(self, place: Roofline, run: Run | Step, level_seconds: float) -> float:
        """Seconds of the draft's forwards in a cycle, with what each adds outside."""
        if self.draft is None:
            return 0.0
        widths = [run.depth] if self.drafting == "at once" else _widths(run.tokens - 1, run.depth)
        kinds = sorted(set(widths))
        seconds = dict(zip(kinds, place.of_draft.forward_seconds(self.draft, kinds), strict=True))
        return float(sum(seconds[width] + level_seconds for width in widths))


def _widths(nodes: int, depth: int) -> list[int]:
    """The number of nodes that the draft reads for each level of a tree of which only nodes and depth are known."""
    width = 1 if nodes == depth else min(WIDEST, max(1, nodes // depth))
    return [1] + [width] * (depth - 1)
