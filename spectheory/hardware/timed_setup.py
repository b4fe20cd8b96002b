"""`TimedSetup`: the models and GPUs on which runs are timed, the seconds of a run, and checks of runs against them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectheory.core.errors import InputError
from spectheory.hardware.engine_costs import NAMES, ON_TRANSFORMERS, EngineCosts, Parallel, split
from spectheory.hardware.gpus import Gpu, known_gpu
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import known_model
from spectheory.hardware.roofline import Roofline
from spectheory.hardware.runs import Run, Step

WIDEST = 10
"""Nodes of a level that a draft expands at most, in the trees of EAGLE-2 and EAGLE-3."""
PEAK = EngineCosts(**{name: 1.0 if name.endswith("_share") else 0.0 for name in NAMES} | {"independent_share": 1e-9})
"""The costs of an engine that reaches all peak rates without overheads, with all tokens on the same experts."""
ALIKE = 0.05
"""Share by which the bytes of one format may differ between two sources: scales are stored in several ways."""
SIXTEEN_BITS = 1.9
"""Weights with at least this many bytes are not packed."""


@dataclass(frozen=True)
class TimedSetup:
    """The models and GPUs on which runs are timed.

    The attributes are as for `Latency.roofline`. The models are in the formats that run; the draft is None if drafts
    are looked up (n-gram, suffix), or if nothing is drafted.
    """

    gpu: Gpu
    target: ModelConfig
    draft: ModelConfig | None
    gpus: int
    parallel: Parallel

    def __post_init__(self) -> None:
        self.roofline(1, 0, PEAK)
        for name in ("target", "draft"):
            if (model := getattr(self, name)) is not None:
                object.__setattr__(self, name, replace(model, design=None, prediction=None))

    def roofline(self, batch: int, context: int, costs: EngineCosts, *more: float) -> Roofline:
        """The roofline for `batch` sequences with these costs; `more` are prompt tokens and the share that drafts.

        Raises:
            InputError: a number is out of range.
        """
        place = self.gpu, self.gpus, batch, context, costs, self.parallel
        return Roofline(*place, *more)

    def seconds(self, run: Run | Step, costs: EngineCosts) -> float:
        """The predicted seconds of a run or a step. Between whole batch sizes they are interpolated linearly.

        Raises:
            InputError: a number is out of range.
        """
        below, above = math.floor(run.batch), math.ceil(run.batch)
        first = self._seconds(run, below, costs)
        return first if above == below else first + (run.batch - below) * (self._seconds(run, above, costs) - first)

    def _seconds(self, run: Run | Step, batch: int, costs: EngineCosts) -> float:
        place = self.roofline(batch, round(run.context), costs, run.prefill_tokens, run.drafted_share or 1.0)
        forward = float(place.forward_seconds(self.target, [run.tokens])[0])
        if run.kind == "forward":
            return forward
        draft = self.draft if run.kind == "speculative" else None
        overheads = place.overheads(self.target, draft)
        if run.kind == "plain":
            return forward + overheads.plain_overhead_seconds
        drafting = self._drafting_seconds(place, run, overheads.level_overhead_seconds)
        return forward + drafting + overheads.overhead_seconds

    def _drafting_seconds(self, place: Roofline, run: Run | Step, level_seconds: float) -> float:
        """Seconds of the draft's forwards in a cycle, with what each adds outside.

        Of a tree only the nodes and the depth are known: each level is taken to have the mean width.
        """
        if self.draft is None:
            return 0.0
        nodes, depth = run.tokens - 1, run.depth
        width = 1 if nodes == depth else min(WIDEST, max(1, nodes // depth))
        widths = [depth] if self.draft.drafts_at_once else [1] + [width] * (depth - 1)
        kinds = sorted(set(widths))
        seconds = dict(zip(kinds, place.forward_seconds(self.draft, kinds), strict=True))
        return float(sum(seconds[width] + level_seconds for width in widths))

    def require_possible(self, run: Run) -> None:
        """Check that the models and the caches of a run fit into the memory, and that its seconds are possible.

        The least seconds are those of its target forward at the peak rates, without overheads.

        Raises:
            InputError: they do not fit, or the run is faster than the bandwidth or the operations of the GPUs allow.
        """
        whole = self.roofline(math.ceil(run.batch), round(run.context), PEAK)
        try:
            whole.require_memory(self.target, self.draft if run.kind == "speculative" else None)
        except InputError as error:
            raise InputError(f"{run.where}{error}") from None
        place = self.roofline(math.floor(run.batch), math.floor(run.context), PEAK)
        parts = place.forward_parts(self.target, [1 + (run.tokens - 1) * (run.drafted_share or 1.0)])
        operations, _ = float(parts.pop("operations")[0]), parts.pop("overlap")
        least = max(operations, float(sum(seconds[0] for seconds in parts.values())))
        if run.seconds >= (least if self.target.linear_bytes >= SIXTEEN_BITS else (1 - ALIKE) * least):
            return
        raise InputError(
            f"{run.where}{run.tokens_per_second:,.5g} tokens per second at batch {run.batch:g} are more than "
            f"{self.gpus} x {self.gpu.name} allows: reading the {self.target.weight_bytes / 1e9:.3g} GB of "
            f"{self.target.name} and the caches at the peak bandwidth, or computing at the peak rate, takes "
            f"{1e3 * least:.3g} ms, so at most {run.tokens_per_second * run.seconds / least:,.5g} tokens per second. "
            "A throughput counts the tokens of all sequences together; check it, the batch size, the GPU, the number "
            "of GPUs and the format of the weights"
        )

    def require_named(self, runs: Sequence[Run], engine: str) -> tuple[str, ...]:
        """Check that the model, the GPUs and the engine that runs name are those of the deployment.

        Returns:
            Sentences on names that are not known and are taken to mean the deployment.

        Raises:
            InputError: a run names another model, GPU, number of GPUs or engine.
        """
        own = {"model": self.target.name, "gpu": self.gpu.name, "gpus": self.gpus, "engine": engine}
        unknown = {}
        for run in runs:
            named, card = known_model(run.model), known_gpu(run.gpu)
            engines = {split(one)[0] for one in (engine, run.engine) if one}
            differs = {
                "model": named is not None and named.shape != self.target.shape,
                "gpu": card is not None and card.name != self.gpu.name,
                "gpus": run.gpus not in (None, self.gpus),
                "engine": len(engines - {"hf", *ON_TRANSFORMERS}) + bool(engines & {"hf", *ON_TRANSFORMERS}) > 1,
            }
            for name, wrong in differs.items():
                if wrong:
                    raise InputError(
                        f"{run.where}{name} is {getattr(run, name)!r:.80}, but the runs are to calibrate a deployment "
                        f"with {own[name]}: give what the run was measured with, or leave out the run"
                    )
            for name, found in (("model", named), ("gpu", card)):
                if found is None and (value := getattr(run, name)) not in (None, own[name]):
                    unknown[f"the {name} {value!r:.80} of the runs, which is not known, is {own[name]}"] = None
        return tuple(unknown)
