"""`Deployment`, models on a GPU, with computed forward times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_not_negative, check_types, check_whole, checked
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.engine_costs import DEFAULT_ENGINE, EngineCosts, Parallel, lookup_share
from spectheory.hardware.gpus import gpu as gpu_of
from spectheory.hardware.hf_fields import LARGEST
from spectheory.hardware.latency import DEFAULT_CONTEXT, Latency
from spectheory.hardware.model_config import MTP
from spectheory.hardware.models import draft_of, kind_and_target, kind_named, lookup_named, model
from spectheory.planning.candidates import MAX_BUDGET, Progress, ignore_progress
from spectheory.planning.contexts import over_contexts
from spectheory.planning.planner import schedule
from spectheory.planning.schedule_record import Schedule, check_batches
from spectheory.replay import Replays
from spectheory.yields import block_efficiency


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
            `medusa`, `p-eagle`, `dflash` or `dspark` (see `draft_of_kind`). `ngram` and `suffix` look drafts up
            in the text, which takes no time; their acceptance depends on the text, so count it on your own.
        gpus: number of GPUs that share a forward.
        context: number of tokens in the KV cache of each sequence; None is the mean by the lengths, or 1,024 without
            lengths.
        kv_dtype: format of the KV caches, such as `fp8`; None keeps the one of the config.
        engine: engine whose costs the times have, such as `vllm`; for a version of it, `vllm@0.11`. None is the
            engine of calibrated `costs`, otherwise `vllm`.
        parallel: how several GPUs share a model, see `Roofline`; None is usual for the engine: `layers` for `hf` and
            `llama.cpp`, otherwise `tensor`.
        prompt_tokens, output_tokens: mean numbers of tokens of a prompt and of an answer. None, without both, counts
            no prompts.
        costs: costs of the engine, such as the ones that `spectheory.calibrate` returns; None is
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
    kv_dtype: str | None = None
    engine: str | None = None
    parallel: Parallel | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    costs: CalibratedCosts | EngineCosts | None = None

    def __post_init__(self) -> None:
        check_types(Deployment, vars(self))
        gpu_of(self.gpu)
        EngineCosts.of(self.timed_engine)
        check_whole("gpus", self.gpus, 1, most=LARGEST)
        check_whole("context", self.context or 0, 0, most=LARGEST)
        if self._lengths is None:
            if self.prompt_tokens is not self.output_tokens:
                raise InputError("prompt_tokens and output_tokens belong together: give both, or a context instead")
            return
        prompt, output = self._lengths
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
        """The engine whose costs the times have."""
        return self.engine or (self.costs.engine if isinstance(self.costs, CalibratedCosts) else DEFAULT_ENGINE)

    @property
    def planned_context(self) -> int:
        """The number of tokens in the KV cache of each sequence for which times are planned, on average."""
        if self.context is not None or self._lengths is None:
            return DEFAULT_CONTEXT if self.context is None else self.context
        prompt, output = self._lengths
        return round((prompt + (prompt + output)) / 2)

    @checked
    def latency(self, batch: int, *, drafted_share: float = 1.0) -> Latency:
        """Forward times for `batch` sequences, which a roofline computes; `drafted_share` as for `Roofline`.

        Raises:
            InputError: see `Latency.roofline`; or `costs` are for another deployment.
        """
        costs = self.costs.costs if isinstance(self.costs, CalibratedCosts) else self.costs
        computed = Latency.roofline(
            gpu=self.gpu,
            target=self.target,
            draft=self.draft,
            gpus=self.gpus,
            batch=batch,
            context=self.planned_context,
            lengths=self._lengths,
            engine=self.timed_engine,
            costs=costs,
            parallel=self.parallel,
            kv_dtype=self.kv_dtype,
            drafted_share=drafted_share,
        )
        return self.costs.noted(computed) if isinstance(self.costs, CalibratedCosts) else computed

    def schedule(
        self,
        acceptance: Acceptance,
        batches: Sequence[int] = (1,),
        *,
        max_budget: int = MAX_BUDGET,
        max_depth: int | None = None,
        max_fanout: int | None = None,
        replays: Replays | None = None,
        contexts: Sequence[int] = (),
        progress: Progress = ignore_progress,
    ) -> Schedule:
        """The fastest choice at each batch size. Arguments are the same as for `spectheory.schedule`.

        With `contexts`, increasing, each of them is planned for the batch sizes that fit into memory. The schedule is
        for the one whose choices lose least at worst in the others, and has the choices of all as its `cells`.

        Raises:
            InputError: the draft cannot draft for the target, the models and their caches do not fit into memory,
                drafts are looked up but the rates or the texts are of a draft model, or `spectheory.schedule` refuses
                an argument.
        """
        check_batches(batches)
        self._require_own_counts(acceptance, replays)
        given: dict[str, Any] = {"max_budget": max_budget, "max_fanout": max_fanout, "replays": replays}
        given["progress"] = progress
        if contexts:
            check_batches(contexts, "contexts")
            places = [replace(self, context=int(context)) for context in contexts]
            given["max_depth"] = max_depth
            return over_contexts([at.schedule(acceptance, at._fitting(batches), **given) for at in places])
        deepest = self.deepest(acceptance) if max_depth is None else None
        given["max_depth"] = max_depth if deepest is None else deepest
        rates, share = self.of_all_steps(acceptance)
        times = partial(self.latency, drafted_share=share)
        made = schedule(rates, times, batches, context=self.planned_context, **given)
        stamp = made.provenance
        if deepest:
            stamp = stamp.assuming(f"a multi-token-prediction module drafts at most the {deepest} measured depths")
        return replace(made, provenance=stamp)

    def of_all_steps(self, acceptance: Acceptance) -> tuple[Acceptance, float]:
        """The rates of all steps, and the share of the sequences that draft, which is the usual one if not counted."""
        if lookup_named(self.draft) is None:
            return acceptance, 1.0
        rates, chain = acceptance.of_all_steps, acceptance.cycles_of or Tree.chain(acceptance.depths)
        tau = block_efficiency(chain, rates)
        return rates, lookup_share(self.timed_engine, tau, chain.max_depth, acceptance.drafted_share)

    def _fitting(self, batches: Sequence[int]) -> Sequence[int]:
        """The batch sizes that fit into memory, and always the first: its plan then says what would fit."""
        found = self.latency(int(batches[0])).inputs
        assert found is not None
        place, models = found.place, (found.target, found.draft)
        needed = [replace(place, batch=int(batch)).memory_needed(*models) for batch in batches]
        return batches[: bisect_right(needed, place.offered_bytes)]

    def deepest(self, acceptance: Acceptance) -> int | None:
        """The deepest level that is planned without a limit: for a multi-token-prediction module, that of the rates.

        The module was trained for one level or few, and its rates fall at deeper ones.
        """
        name = self.draft_name.lower()
        return acceptance.depths if MTP in (name, *(kind_and_target(name) or ())) else None

    @property
    def draft_name(self) -> str:
        """The name of the draft: `eagle3-llama-3.1-8b` for the kind `eagle3`, `ngram` for `n-gram`, else as given."""
        if lookup := lookup_named(self.draft):
            return lookup
        draft = draft_of(model(self.target), self.draft) if kind_named(self.draft) else None
        return self.draft if draft is None else draft.name

    @property
    def _lengths(self) -> tuple[float, float] | None:
        """Numbers of tokens in a prompt and in an answer; None if they are not given."""
        if self.prompt_tokens is None or self.output_tokens is None:
            return None
        return self.prompt_tokens, self.output_tokens

    def _require_own_counts(self, acceptance: Acceptance, replays: Replays | None) -> None:
        """Check that the rates are not those of a draft model, if drafts are looked up."""
        lookup, counted = lookup_named(self.draft), acceptance.provenance.draft
        if lookup is not None and (replays is not None or (counted is not None and lookup_named(counted) != lookup)):
            raise InputError(
                f"acceptance must be measured with {lookup} drafts, got {counted or 'a trace of a draft model'}: count "
                f"how often your text accepts {lookup} drafts, for example with spectheory import vllm-metrics"
            )
