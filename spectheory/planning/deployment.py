"""`Deployment`, models on a GPU, with forward times that are measured if a record exists, otherwise computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_not_negative
from spectheory.core.errors import InputError
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.engine_costs import DEFAULT_ENGINE, EngineCosts, Parallel, usual_parallel
from spectheory.hardware.gpus import gpu as gpu_of
from spectheory.hardware.hf_config import LARGEST
from spectheory.hardware.latency import DEFAULT_CONTEXT, Drafting, Latency, record_path
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import kind_named, lookup_named, model, pair_in_formats, require_pair, shipped_name
from spectheory.hardware.timed_setup import TimedSetup
from spectheory.planning.candidates import MAX_BUDGET, Progress, ignore_progress
from spectheory.planning.planner import schedule
from spectheory.planning.schedule_record import Schedule, check_batches
from spectheory.replay import Replays


@dataclass(frozen=True)
class Deployment:
    """A target and a draft on a GPU, and the lengths of their texts.

    **Lengths.** In a server that is always full, each sequence decodes a request of `prompt_tokens` and
    `output_tokens`, on average, and then the next one. So its context is anywhere between `prompt_tokens` and their
    sum, with equal probability, and `prompt_tokens + output_tokens / 2` on average. A sequence finishes a request
    every `output_tokens` tokens. So for each token that it emits, `prompt_tokens / output_tokens` tokens of prompts are
    processed. With `batch` sequences these are `batch * prompt_tokens / output_tokens` tokens beside a plain step, and
    tau times as many beside a cycle that yields tau tokens. Per emitted token they take the target the same time with
    and without speculation. With speculation, the draft reads the prompts too. This time does not shrink, so long
    prompts and short answers bring the speedup closer to 1.

    Attributes:
        gpu: key or name of a known GPU.
        target: name of a shipped model, or path of a config.json or of its folder.
        draft: the same for the draft, or the kind of a draft for the target: `eagle1`, `eagle2`, `eagle3`, `mtp`,
            `medusa`, `p-eagle`, `dflash`, `dspark` or `pard` (see `draft_of_kind`). `ngram` and `suffix` look drafts up
            in the text, which takes no time; their acceptance depends on the text, so count it on your own.
        gpus: number of GPUs that share a forward.
        context: number of tokens in the KV cache of each sequence; None is the mean by the lengths, or 1,024 without
            lengths.
        measured: folder of measured latency records; None computes all times.
        quant: format of the weights of the target and of its multi-token-prediction module, such as `fp8` or `q4_k_m`;
            None keeps the one of the config.
        kv_dtype: format of the KV caches, such as `fp8`; None keeps the one of the config. Measured records do not
            state theirs, so with a format all times are computed.
        engine: engine whose costs computed times have, such as `vllm`; for a version of it, `vllm@0.11`. None is the
            engine of calibrated `costs`, otherwise `vllm`.
        parallel: how several GPUs share a model, see `Roofline`; None is usual for the engine: `layers` for `hf` and
            `llama.cpp`, otherwise `tensor`.
        draft_gpus: number of GPUs that share the draft; None is all.
        drafting: whether the draft runs once for each drafted level (`levels`), or once for all (`at once`); None is
            as measured, and for computed times usual for the draft, see `ModelConfig.drafts_at_once`.
        prompt_tokens, output_tokens: mean numbers of tokens of a prompt and of an answer. Times are then computed,
            because measured records have no times of prompts. None, without both, counts no prompts.
        costs: costs of the engine for computed times, such as the ones that `spectheory.calibrate` returns; None is
            those of the engine in the shipped table.

    Raises:
        InputError: only one of `prompt_tokens` and `output_tokens` is given, one is out of range, or `context` is not
            between `prompt_tokens` and the sum of both.

    >>> place = Deployment("h100_sxm", "llama-3.1-8b", "eagle3")
    >>> place.latency(4).provenance.draft
    'eagle3-llama-3.1-8b'
    >>> Deployment("h100_sxm", "llama-3.1-8b", "ngram", prompt_tokens=900, output_tokens=200).planned_context
    1000
    """

    gpu: str
    target: str
    draft: str
    gpus: int = 1
    context: int | None = None
    measured: Path | None = None
    quant: str | None = None
    kv_dtype: str | None = None
    engine: str | None = None
    parallel: Parallel | None = None
    draft_gpus: int | None = None
    drafting: Drafting | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    costs: CalibratedCosts | EngineCosts | None = None

    def __post_init__(self) -> None:
        if self.prompt_tokens is None and self.output_tokens is None:
            return
        if self.prompt_tokens is None or self.output_tokens is None:
            given, other = ("prompt", "output") if self.output_tokens is None else ("output", "prompt")
            raise InputError(f"{given}_tokens needs {other}_tokens: give both, or a context without either")
        prompt, output = self.prompt_tokens, self.output_tokens
        check_not_negative("prompt_tokens", prompt, ": give the mean number of tokens of a prompt")
        check_not_negative("output_tokens", output, ": give the mean number of tokens of an answer")
        if output == 0:
            raise InputError("output_tokens must be above 0, got 0: an answer has at least one token")
        if prompt + output > LARGEST:
            raise InputError(
                f"prompt_tokens and output_tokens must add up to at most {LARGEST:,}, got {prompt:g} and {output:g}"
            )
        if self.context is not None and not prompt <= self.context <= prompt + output:
            raise InputError(
                f"context must be between prompt_tokens={prompt:g} and {prompt + output:g}, the end of an answer of "
                f"output_tokens={output:g}, got {self.context:,}: leave out the context, or change the lengths"
            )

    @property
    def timed_engine(self) -> str:
        """The engine whose costs computed times have."""
        return self.engine or (self.costs.engine if isinstance(self.costs, CalibratedCosts) else DEFAULT_ENGINE)

    @property
    def planned_context(self) -> int:
        """The number of tokens in the KV cache of each sequence for which times are planned, on average."""
        if self.context is not None or self._lengths is None:
            return DEFAULT_CONTEXT if self.context is None else self.context
        prompt, output = self._lengths
        return round((prompt + (prompt + output)) / 2)

    def latency(self, batch: int) -> Latency:
        """Forward times for `batch` sequences.

        They are measured if `gpus` is 1, no lengths are given, and a measured record covers the context. Otherwise a
        roofline computes them.

        Raises:
            InputError: see `Latency.roofline` and `Latency.measured`; or `costs` are for another deployment.
        """
        target, draft = self._names
        recorded = self.gpus == 1 and self.kv_dtype is None and self._lengths is None
        if self.measured and recorded and record_path(self.gpu, target, draft, batch, self.measured).is_file():
            record = Latency.measured(gpu=self.gpu, target=target, draft=draft, batch=batch, folder=self.measured)
            if record.covers(self.planned_context):
                return record if self.drafting is None else replace(record, drafting=self.drafting)
        first, second = self._models()
        costs, curves, said = self.costs, None, ()
        if isinstance(costs, CalibratedCosts):
            said = costs.require_for(self.timed_engine, self._setup(first, second))
            costs, curves = costs.costs, costs.setup.curves
        computed = Latency.roofline(
            gpu=self.gpu,
            target=first,
            draft=draft if second is None else second,
            gpus=self.gpus,
            batch=batch,
            context=self.context if self._lengths else self.planned_context,
            lengths=self._lengths,
            engine=self.timed_engine,
            costs=costs,
            curves=curves,
            parallel=self.parallel,
            draft_gpus=self.draft_gpus,
            drafting=self.drafting,
        )
        return replace(computed, provenance=computed.provenance.assuming(*said))

    def schedule(
        self,
        acceptance: Acceptance,
        batches: Sequence[int] = (1,),
        *,
        max_budget: int = MAX_BUDGET,
        max_depth: int | None = None,
        max_fanout: int | None = None,
        replays: Replays | None = None,
        progress: Progress = ignore_progress,
    ) -> Schedule:
        """The fastest choice at each batch size. Arguments are the same as for `spectheory.schedule`.

        Raises:
            InputError: the draft cannot draft for the target, the models and their caches do not fit into memory, the
                folder `measured` has no record for this deployment, drafts are looked up but the rates or the texts are
                of a draft model, or `spectheory.schedule` refuses an argument.
        """
        check_batches(batches)
        self._require_own_counts(acceptance, replays)
        self._require_measured(batches)
        self.latency(batches[-1])  # the largest batch must fit into memory
        self._require_pair()
        return schedule(
            acceptance,
            self.latency,
            batches,
            context=self.planned_context,
            max_budget=max_budget,
            max_depth=max_depth,
            max_fanout=max_fanout,
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
    def draft_name(self) -> str:
        """The name of the draft: `eagle3-llama-3.1-8b` for the kind `eagle3`, `ngram` for `n-gram`, else as given."""
        if lookup := lookup_named(self.draft):
            return lookup
        draft = self._models()[1] if kind_named(self.draft) else None
        return self.draft if draft is None else draft.name

    @property
    def _lengths(self) -> tuple[float, float] | None:
        """Numbers of tokens in a prompt and in an answer; None if they are not given."""
        if self.prompt_tokens is None or self.output_tokens is None:
            return None
        return self.prompt_tokens, self.output_tokens

    @property
    def _names(self) -> tuple[str, str]:
        """The names of target and draft in measured records."""
        target, draft = shipped_name(self.target) or self.target, shipped_name(self.draft) or self.draft_name
        return target if self.quant is None else f"{target}-{self.quant.lower()}", draft

    def _models(self) -> tuple[ModelConfig, ModelConfig | None]:
        """Target and draft in the formats of the deployment; the draft is None if drafts are looked up."""
        return pair_in_formats(model(self.target), self.draft, self.quant, self.kv_dtype)

    def _require_own_counts(self, acceptance: Acceptance, replays: Replays | None) -> None:
        """Check that the rates are not those of a draft model, if drafts are looked up."""
        lookup, counted = lookup_named(self.draft), acceptance.provenance.draft
        if lookup is not None and (replays is not None or (counted is not None and lookup_named(counted) != lookup)):
            raise InputError(
                f"acceptance must be measured with {lookup} drafts, got {counted or 'a trace of a draft model'}: count "
                f"how often your text accepts {lookup} drafts, for example with spectheory import vllm-metrics"
            )

    def _setup(self, target: ModelConfig, draft: ModelConfig | None) -> TimedSetup:
        """The deployment, to compare with one that was calibrated."""
        parallel = self.parallel or usual_parallel(self.timed_engine)
        drafting = self.drafting or ("at once" if draft is not None and draft.drafts_at_once else "levels")
        return TimedSetup(gpu_of(self.gpu), target, draft, self.gpus, parallel, self.draft_gpus, drafting)

    def _require_pair(self) -> None:
        """Check that the draft can draft for the target. Models known only from `measured` are not checked."""
        known = any(named(self.draft) for named in (kind_named, lookup_named, shipped_name))
        if self.measured is None or (known and shipped_name(self.target)):
            target, draft = self._models()
            require_pair(target, target if draft is None else draft, self.planned_context)

    def _require_measured(self, batches: Sequence[int]) -> None:
        """Check that `measured`, if it is given, has a record that holds for some batch size."""
        if self.measured is None:
            return
        other = {"gpus": self.gpus > 1, "kv_dtype": self.kv_dtype, "prompt_tokens": self._lengths}
        if given := next((name for name, value in other.items() if value), None):
            raise InputError(
                f"measured records are for 1 GPU, without prompts and for the usual KV cache, got {given}="
                f"{getattr(self, given)}: leave out the measured records, or {given}"
            )
        paths = {batch: record_path(self.gpu, *self._names, batch, self.measured) for batch in batches}
        if all(self.latency(batch).computed for batch, path in paths.items() if path.is_file()):
            raise InputError(
                f"there is no measured record {paths[batches[0]]} for context {self.planned_context:,}, nor one of "
                "another batch size of the plan: leave out the folder, so that times are computed, or measure with "
                "python -m benchmarks.gpu"
            )
