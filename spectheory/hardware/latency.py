"""`Latency`, the record of the seconds of target and draft forwards, measured or computed by a roofline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.draft_heads import lookup_named
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.forward_times import ForwardTimes
from spectheory.hardware.gpus import Gpu
from spectheory.hardware.gpus import gpu as gpu_of
from spectheory.hardware.kernel_curves import KernelCurve, usual_curves
from spectheory.hardware.library import MEASURE, find, require_place
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import model
from spectheory.hardware.overhead_checks import check_second, checked_verifier_seconds
from spectheory.hardware.pairs import draft_of
from spectheory.hardware.placement import DEFAULT_ENGINE, Parallel, usual_parallel
from spectheory.hardware.roofline import TOKENS, Roofline
from spectheory.hardware.roofline_inputs import RooflineInputs

Drafting = Literal["levels", "at once"]
"""How a draft drafts: one forward for each level, or one forward for all levels."""
SINGLE_TIMES = (
    "overhead_seconds",
    "level_overhead_seconds",
    "plain_overhead_seconds",
    "tree_mask_seconds",
    "prompt_seconds",
    "draft_prompt_seconds",
)
"""The times of a latency that are one number."""


@dataclass(frozen=True, eq=False, repr=False)
class Latency(ForwardTimes, Record):
    """Seconds of a forward of both models, by number of tokens and context, and the overheads of a cycle.

    The times of forwards, and how they are interpolated, are those of `ForwardTimes`.

    Attributes:
        overhead_seconds: seconds of a draft-and-verify cycle outside the forwards, the same for every tree.
        level_overhead_seconds: additional seconds outside the forwards for each drafted level, or once in a cycle if
            all levels are drafted at once.
        plain_overhead_seconds: seconds of a plain decoding step outside its forward.
        verifier_seconds: for each verifier by name, its own overheads: per cycle, per drafted level and per drafted
            node. A verifier that is not listed has the overheads above.
        drafting: `levels` if the draft runs once for each drafted level, with the nodes that get children; `at once`
            if it runs once for all levels, with one token for each (P-EAGLE, DFlash, Medusa).
        tree_mask_seconds: additional seconds for each drafted node if a tree is verified that is not a chain.
        prompt_seconds: seconds of target forwards on the prompts of new requests, for each token that a sequence emits.
            A server that is always full starts a request for each one that ends, so a plain step pays them once, and a
            cycle that yields tau tokens tau times.
        draft_prompt_seconds: the same for the draft, if there is speculation.
        computed: true if the seconds come from `roofline` or `constant`, false if they were measured.
        provenance: where the seconds come from.
        inputs: what a roofline computed the seconds from; None for all other seconds.
    """

    kind: ClassVar[str] = "latency"
    schema: ClassVar[int] = 6

    overhead_seconds: float = 0.0
    level_overhead_seconds: float = 0.0
    plain_overhead_seconds: float = 0.0
    verifier_seconds: dict[str, tuple[float, ...]] = field(default_factory=dict)
    drafting: Drafting = "levels"
    tree_mask_seconds: float = 0.0
    prompt_seconds: float = 0.0
    draft_prompt_seconds: float = 0.0
    computed: bool = False
    provenance: Provenance = UNKNOWN
    inputs: RooflineInputs | None = field(default=None, metadata={"optional": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in SINGLE_TIMES:
            check_second(name, getattr(self, name))
        if self.drafting not in get_args(Drafting):
            raise InputError(f"drafting must be one of {', '.join(get_args(Drafting))}, got {self.drafting!r:.60}")
        object.__setattr__(self, "verifier_seconds", checked_verifier_seconds(self.verifier_seconds))

    @classmethod
    def constant(cls, *, target_seconds: float = 1.0, draft_seconds: float = 0.0) -> Self:
        """A latency in which the time of a forward depends neither on its tokens nor on the context."""
        stamp = Provenance(
            source="spectheory.Latency.constant", assumptions=("a forward of any size takes the same time",)
        )
        return cls(
            np.array([1]),
            np.array([0]),
            np.array([[target_seconds]]),
            np.array([[draft_seconds]]),
            computed=True,
            provenance=stamp,
        )

    @classmethod
    def roofline(
        cls,
        *,
        gpu: str | Gpu,
        target: str | Path | Mapping[str, Any] | ModelConfig,
        draft: str | Path | Mapping[str, Any] | ModelConfig | None,
        batch: int = 1,
        context: float = 1024,
        last_context: float | None = None,
        tokens: Iterable[int] | None = None,
        gpus: int = 1,
        engine: str = DEFAULT_ENGINE,
        costs: EngineCosts | None = None,
        parallel: Parallel | None = None,
        draft_gpus: int | None = None,
        drafting: Drafting | None = None,
        prefill_tokens: float = 0.0,
        curves: Sequence[KernelCurve] | None = None,
    ) -> Self:
        """A latency computed by `spectheory.hardware.roofline`, not measured. Prefer `measured` if it has a record.

        Args:
            gpu: a name of the GPU, or a `Gpu`.
            target: the target: a shipped name, a config.json (path, folder or contents), or a `ModelConfig`.
            draft: the draft model, given in one of the same ways, or the kind of the draft, see `draft_of_kind`; None,
                `ngram` or `suffix` if drafts are looked up, which takes no time.
            batch: the number of sequences that run together in a forward.
            context: tokens of each sequence in the KV cache; the mean, if they differ.
            last_context: tokens in the KV cache at the end of a request, if `context` is their number at its start;
                forwards then have the mean seconds of the contexts in between.
            tokens: numbers of tokens of one sequence in a forward; the forward has `batch` times as many. The default
                goes up to 256.
            gpus: the number of GPUs.
            engine: the engine whose costs are used, such as `vllm`; for a version of it, `vllm@0.11`.
            costs: your own shares of peak rates and overheads; None uses those of the engine in the shipped table.
            parallel: how several GPUs share a model, see `Roofline`; None is usual for the engine: `layers` for `hf`
                and `llama.cpp`, otherwise `tensor`.
            draft_gpus: the number of GPUs that share the draft; None is all.
            drafting: whether the draft runs once for each drafted level, or once for all of them; None is usual for the
                draft, see `ModelConfig.drafts_at_once`.
            prefill_tokens: tokens of prompts that a plain step processes besides decoding (chunked prefill), on
                average; a cycle that yields tau tokens of each sequence processes tau times as many.
            curves: measured curves of kernels; None uses those of `kernel_curves` for the engine, with which the
                shipped costs were fitted, or none if `costs` are given. `CalibratedCosts.setup` has those of a
                calibration.

        Raises:
            InputError: the GPU or a model is unknown (the message lists similar names), a config lacks a field, the
                draft cannot draft for the target, a number is out of range, or the models and the cache do not fit into
                the memory of the GPUs.
        """
        first = model(target)
        second = draft_of(first, draft)
        given = costs is not None
        known = usual_curves(engine, given=given) if curves is None else tuple(curves)
        place = Roofline(
            gpu_of(gpu),
            gpus,
            batch,
            context,
            EngineCosts.of(engine) if costs is None else costs,
            usual_parallel(engine) if parallel is None else parallel,
            draft_gpus,
            prefill_tokens,
            last_context,
            known,
        )
        inputs = RooflineInputs.checked(place, first, second, engine, given)
        if drafting is None:
            drafting = "at once" if second is not None and second.drafts_at_once else "levels"
        grid = TOKENS if tokens is None else tuple(tokens)
        stamp = inputs.provenance.assuming(_said_of_drafting(None if second is None else drafting, place.costs))
        return cls(
            np.array(grid),
            np.array([place.mean_context]),
            **inputs.seconds(grid),
            drafting=drafting,
            computed=True,
            provenance=stamp.replace(draft=lookup_named(draft)) if second is None and isinstance(draft, str) else stamp,
            inputs=inputs,
        )

    @classmethod
    def measured(cls, *, gpu: str, target: str, draft: str, batch: int = 1, folder: Path | None = None) -> Self:
        """The measured record of `hardware.library` for these models on this GPU.

        Args:
            gpu: a key or a name of the GPU; for a GPU that is not in the table, the name that its driver reports.
            target: the name of the target in the record.
            draft: the name of the draft in the record.
            batch: the number of sequences that run together in a forward.
            folder: the folder of the records; None is the folder of the package.

        Raises:
            InputError: there is no such record (the message lists the records of the folder), or the file holds a
                record of other models, of another GPU or batch size, or of computed times.
            RecordError: the file is damaged.
        """
        text, where = find(gpu, target, draft, batch, folder)
        record = cls.from_text(text, where)
        if record.computed:
            raise InputError(
                f"{where} holds computed times, not measured ones: {MEASURE}, or remove the file to use roofline times"
            )
        require_place(record.provenance, where, gpu=gpu, target=target, draft=draft, batch=batch)
        return record

    @property
    def summary(self) -> str:
        """One line: the seconds of a forward of one token at the first context, and the tokens and contexts covered."""
        target, draft = 1e3 * self.target_seconds[0, 0], 1e3 * self.draft_seconds[0, 0]
        first, last = self.contexts[[0, -1]]
        return (
            f"{'computed' if self.computed else 'measured'}; 1 token after {first:,}: target {target:.3g} ms, draft "
            f"{draft:.3g} ms; up to {self.tokens[-1]:,} tokens, contexts {first:,} to {last:,}"
        )

    @property
    def batch(self) -> int:
        """The number of sequences that run together in a forward, by the provenance; 1 if the provenance has none."""
        return self.provenance.batch or 1

    def smoothed(self) -> Self:
        """The nearest latency, by least squares for each context, whose seconds never fall as tokens are added."""
        from scipy.optimize import isotonic_regression

        def rising(seconds: np.ndarray) -> np.ndarray:
            return np.array([isotonic_regression(row).x for row in seconds])

        return replace(
            self,
            target_seconds=rising(self.target_seconds),
            draft_seconds=rising(self.draft_seconds),
            provenance=self.provenance.replace(smoothed=True).assuming(
                "forward times are smoothed, so that none falls as tokens are added"
            ),
        )

    @property
    def drafts_at_once(self) -> bool:
        """Whether one draft forward drafts all levels."""
        return self.drafting == "at once"

    def draft_levels(self, tree: Tree, context: int) -> float:
        """Seconds of the draft forwards that grow `tree`.

        There is one for each level, as wide as its nodes with children; or one for all levels, with a token for each.
        """
        if self.drafts_at_once:
            return self.draft(tree.max_depth, context) if tree.budget else 0.0
        widths, counts = np.unique(tree.level_widths(), return_counts=True)
        return float(sum(n * self.draft(int(w), context) for w, n in zip(widths, counts, strict=True)))

    def overheads(self, levels: np.ndarray | int, masked: np.ndarray | int = 0) -> np.ndarray:
        """Seconds of speculative cycles outside the forwards, by their numbers of drafted levels, at least 1.

        `masked` is the number of drafted nodes if a tree is verified, and 0 for a chain.
        """
        runs = np.minimum(levels, 1) if self.drafts_at_once else np.asarray(levels)
        return self.overhead_seconds + runs * self.level_overhead_seconds + masked * self.tree_mask_seconds

    def overhead(self, tree: Tree, verifier: str | None = None) -> float:
        """Seconds of a cycle outside the forwards. For a tree without drafted nodes, the overhead of a plain step.

        `verifier` selects its own overhead, if the record has one.
        """
        if tree.budget == 0:
            return self.plain_overhead_seconds
        own = self.verifier_seconds.get(verifier or "")
        if own is None:
            return float(self.overheads(tree.max_depth, 0 if tree.is_chain else tree.budget))
        cycle, level, node = own
        return cycle + (1 if self.drafts_at_once else tree.max_depth) * level + tree.budget * node

    def prompts(self, tau: np.ndarray | float, drafted: np.ndarray | bool = True) -> np.ndarray:
        """Seconds for the prompts of requests that start while a step or cycle yields `tau` tokens of each sequence.

        `drafted` says whether it is a cycle with drafted nodes: only then does the draft read the prompts too.
        """
        return np.asarray(tau) * (self.prompt_seconds + np.where(drafted, self.draft_prompt_seconds, 0.0))

    def speedup(self, tree: Tree, tau: float, context: int, verifier: str | None = None) -> float:
        """The speedup over plain decoding of cycles that yield `tau` tokens."""
        seconds = self.cycle(tree, context, verifier) + self.prompts(tau, tree.budget > 0)
        return float(tau * self.plain(context) / seconds)

    def cycle(self, tree: Tree, context: int, verifier: str | None = None) -> float:
        """Seconds of one cycle without prompts: the draft forwards that grow `tree`, one target forward, the overheads.

        The seconds of `prompts` come on top. They depend on the tokens that the cycle yields.
        """
        forwards = self.draft_levels(tree, context) + self.target(tree.budget + 1, context)
        return forwards + self.overhead(tree, verifier)

    def plain(self, context: int) -> float:
        """Seconds per token of plain autoregressive decoding, with the prompts of new requests."""
        return self.cycle(Tree.chain(0), context) + self.prompt_seconds


def _said_of_drafting(drafting: Drafting | None, costs: EngineCosts) -> str:
    """A sentence on the time of drafting outside the draft's forwards; `drafting` is None if drafts are looked up."""
    if drafting is None:
        return "drafts are looked up without a model, which takes no time; how many are accepted depends on the text"
    level = f"costs {1e3 * costs.level_seconds:.2f} ms outside the draft's forward"
    return f"drafting all levels at once {level}" if drafting == "at once" else f"a drafted level {level}"
