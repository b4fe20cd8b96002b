"""`Deployment`, two models on a GPU, with forward times that are measured if a record exists, otherwise computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.gpus import gpu as gpu_of
from spectheory.hardware.latency import Drafting, Latency
from spectheory.hardware.library import MEASURE, exists, known_in
from spectheory.hardware.model_config import MTP, ModelConfig
from spectheory.hardware.models import model
from spectheory.hardware.pairs import pair, require_pair
from spectheory.hardware.roofline import DEFAULT_ENGINE, Parallel, usual_parallel
from spectheory.hardware.shipped_models import model_names, shipped_name
from spectheory.hardware.timed_setup import TimedSetup
from spectheory.planning.batch_ranges import span
from spectheory.planning.candidates import Progress, ignore_progress
from spectheory.planning.schedule_checks import MOST_BATCHES
from spectheory.planning.schedule_record import Schedule
from spectheory.planning.scheduler import schedule
from spectheory.replay import Replays
from spectheory.yields import RequestClasses


@dataclass(frozen=True)
class Deployment:
    """A target and a draft on a GPU, and the context length of each sequence.

    Attributes:
        gpu: key or name of a known GPU.
        target, draft: name of a shipped model, or path of a config.json, of its folder, or of a GGUF file. The draft
            `mtp` is the multi-token-prediction module of the target.
        gpus: number of GPUs that share a forward.
        context: number of tokens in the KV cache of each sequence.
        measured: folder of measured latency records; None uses the records in the package.
        smooth: whether measured times are made non-decreasing in tokens.
        quant: format of the weights of the target and of its multi-token-prediction module, such as `fp8` or `q4_k_m`;
            None keeps the one of the config.
        kv_dtype: format of the KV caches, such as `fp8`; None keeps the one of the config. Measured records do not
            state theirs, so with a format all times are computed.
        engine: engine whose costs computed times have, such as `vllm`; for a version of it, `vllm@0.11`.
        parallel: how several GPUs share a model, see `Roofline`; None is usual for the engine: `layers` for `hf` and
            `llama.cpp`, otherwise `tensor`.
        draft_gpus: number of GPUs that share the draft; None is all.
        drafting: whether the draft runs once for each drafted level (`levels`), or once for all (`at once`); None is
            as measured, and `levels` for computed times.
        costs: costs of the engine for computed times, such as the ones that `spectheory.calibrate` returns; None is
            those of `engine` in the shipped table.

    >>> place = Deployment("h100_sxm", "llama-3.1-8b", "llama-3.2-1b")
    >>> place.latency(4).provenance.batch
    4
    """

    gpu: str
    target: str
    draft: str
    gpus: int = 1
    context: int = 1024
    measured: Path | None = None
    smooth: bool = False
    quant: str | None = None
    kv_dtype: str | None = None
    engine: str = DEFAULT_ENGINE
    parallel: Parallel | None = None
    draft_gpus: int | None = None
    drafting: Drafting | None = None
    costs: CalibratedCosts | EngineCosts | None = None

    def latency(self, batch: int) -> Latency:
        """Forward times for `batch` sequences.

        They are measured if `gpus` is 1 and a measured record covers the context. Otherwise a roofline computes them.

        Raises:
            InputError: see `Latency.roofline` and `Latency.measured`; or `costs` are for another deployment.
        """
        target, draft = self._names
        recorded = self.gpus == 1 and self.kv_dtype is None
        if recorded and exists(self.gpu, target, draft, batch, self.measured):
            record = Latency.measured(gpu=self.gpu, target=target, draft=draft, batch=batch, folder=self.measured)
            if record.covers(self.context):
                record = record if self.drafting is None else replace(record, drafting=self.drafting)
                return record.smoothed() if self.smooth else record
        first, second = self._models()
        said = self._calibration(first, second)
        computed = Latency.roofline(
            gpu=self.gpu,
            target=first,
            draft=second,
            gpus=self.gpus,
            batch=batch,
            context=self.context,
            engine=self.engine,
            costs=self.costs.costs if isinstance(self.costs, CalibratedCosts) else self.costs,
            parallel=self.parallel,
            draft_gpus=self.draft_gpus,
            drafting=self.drafting or "levels",
        )
        return replace(computed, provenance=computed.provenance.assuming(*said))

    def schedule(
        self,
        acceptance: Acceptance,
        batches: Sequence[int],
        *,
        max_budget: int = 64,
        max_depth: int | None = None,
        max_fanout: int | None = None,
        classes: RequestClasses | None = None,
        replays: Replays | None = None,
        progress: Progress = ignore_progress,
    ) -> Schedule:
        """The fastest choice at each batch size. Arguments are the same as for `spectheory.schedule`.

        Raises:
            InputError: the draft cannot draft for the target, the models and their caches do not fit into memory, the
                folder `measured` has no record for this deployment, or `spectheory.schedule` refuses an argument.
        """
        self._require_batches(batches)
        self._require_pair()
        return schedule(
            acceptance,
            self.latency,
            batches,
            context=self.context,
            max_budget=max_budget,
            max_depth=max_depth,
            max_fanout=max_fanout,
            classes=classes,
            replays=replays,
            progress=progress,
        )

    @property
    def target_config(self) -> ModelConfig | None:
        """The configuration of the target; None if only measurements of the target are known."""
        try:
            found = model(self.target)
            return found if self.quant is None else found.quantised(self.quant)
        except InputError:
            return None

    @property
    def _names(self) -> tuple[str, str]:
        """The names of target and draft in measured records."""
        target, draft = shipped_name(self.target) or self.target, shipped_name(self.draft) or self.draft
        return target if self.quant is None else f"{target}-{self.quant.lower()}", draft

    def _models(self) -> tuple[ModelConfig, ModelConfig]:
        """Target and draft in the formats of the deployment."""
        target = model(self.target)
        target = target if self.quant is None else target.quantised(self.quant)
        both = pair(target, self.draft)
        return both if self.kv_dtype is None else (both[0].with_kv(self.kv_dtype), both[1].with_kv(self.kv_dtype))

    def _calibration(self, target: ModelConfig, draft: ModelConfig) -> tuple[str, ...]:
        """Sentences on the calibration of `costs`, after a check that it was for this deployment; none without one."""
        if not isinstance(self.costs, CalibratedCosts):
            return ()
        parallel, drafting = self.parallel or usual_parallel(self.engine), self.drafting or "levels"
        place = self.gpus, parallel, self.draft_gpus, drafting
        return self.costs.require_for(self.engine, TimedSetup(gpu_of(self.gpu), target, draft, *place))

    def _require_pair(self) -> None:
        """Check that the draft can draft for the target. Models known only from `measured` are not checked."""
        shipped = {shipped_name(self.target), shipped_name(self.draft) or self.draft} <= {*model_names(), MTP}
        if self.measured is None or shipped:
            require_pair(*self._models(), self.context)

    def _require_batches(self, batches: Sequence[int]) -> None:
        """Check that there are not too many batch sizes, and that the largest fits into memory."""
        if len(batches) > MOST_BATCHES:
            self.latency(batches[-1])
            raise InputError(
                f"there can be at most {MOST_BATCHES:,} batch sizes, got {len(batches):,}: list only the "
                "sizes that you need, like 1,2,4,8"
            )
        self._require_measured(batches)
        self.latency(batches[-1])

    def _require_measured(self, batches: Sequence[int]) -> None:
        """Check that `measured` has a record for some batch size, and that the other times can be computed."""
        if self.measured is None:
            return
        if self.gpus > 1:
            raise InputError(
                f"measured records are for 1 GPU, got {self.gpus} GPUs: plan for 1, or give no folder of records"
            )
        if self.kv_dtype is not None:
            raise InputError(
                f"measured records do not state the format of their KV cache, got kv_dtype {self.kv_dtype}: give no "
                "folder of records, or no kv_dtype"
            )
        there = [batch for batch in batches if exists(self.gpu, *self._names, batch, self.measured)]
        if not there:
            raise InputError(
                f"{self.measured} has no record for gpu {self.gpu}, target {self._names[0]}, draft {self._names[1]} at "
                f"batch {span(batches[0], batches[-1])}. It has {known_in(self.measured)}: give no "
                f"folder of measured records, so that times are computed, or {MEASURE}"
            )
        used = [batch for batch in there if not self.latency(batch).computed]
        if not used:
            raise InputError(
                f"context {self.context:,} is outside the measured contexts in {self.measured}: give a "
                "context within them, or no folder of measured records, so that times are computed"
            )
        self._require_computable(set(batches) - set(used), used)

    def _require_computable(self, missing: set[int], used: Sequence[int]) -> None:
        """Check that times can be computed for the batch sizes without a record."""
        if not missing:
            return
        try:
            gpu_of(self.gpu)
            self._models()
        except InputError as error:
            raise InputError(
                f"batch {min(missing)} has no record, and its times cannot be computed ({str(error).split(':')[0]}): "
                f"plan only the batch sizes {','.join(map(str, used))}"
            ) from None
