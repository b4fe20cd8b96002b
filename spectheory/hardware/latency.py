"""`Latency`, the record of the seconds of target and draft forwards, measured or computed by a roofline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from spectheory.core.checks import LONGEST, SHORTEST, check_array, check_number, check_seconds, check_types, check_whole
from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.engine_costs import DEFAULT_ENGINE, EngineCosts, Parallel, usual_parallel
from spectheory.hardware.gpus import Gpu
from spectheory.hardware.gpus import gpu as gpu_of
from spectheory.hardware.models import Named, lookup_named, pair_of
from spectheory.hardware.roofline import TOKENS, Roofline, RooflineInputs

LARGEST_COUNT = 2**53
"""Numbers of tokens must be below this number. Above it, float64 does not hold every whole number."""
DEFAULT_CONTEXT = 1024
"""Tokens in the KV cache of each sequence, if neither they nor the lengths of texts are given."""
Drafting = Literal["levels", "at once"]
"""How a draft drafts: one forward for each level, or one forward for all levels."""
SINGLE_TIMES = tuple(
    f"{one}_seconds" for one in ("overhead", "level_overhead", "plain_overhead", "tree_mask", "prompt", "draft_prompt")
)
"""The times of a latency that are one number."""


@dataclass(frozen=True, eq=False, repr=False)
class Latency(Record):
    """Seconds of a forward of both models, by number of tokens and context, and the overheads of a cycle.

    Between the measured points the seconds are interpolated linearly in tokens and in context. For more tokens than
    measured they are extrapolated with the last slope. Outside the measured contexts the nearest context is used.

    Attributes:
        tokens: (N,) int, increasing numbers of tokens in a forward; the first is 1.
        contexts: (C,) int, increasing numbers of tokens in the KV cache before the forward.
        target_seconds: (C, N) float64, median seconds of a target forward.
        draft_seconds: (C, N) float64, median seconds of a draft forward.
        target_spread_seconds: (C, N) float64, interquartile range of the target's seconds, or None.
        draft_spread_seconds: (C, N) float64, interquartile range of the draft's seconds, or None.
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
    schema: ClassVar[int] = 7

    tokens: np.ndarray
    contexts: np.ndarray
    target_seconds: np.ndarray
    draft_seconds: np.ndarray
    target_spread_seconds: np.ndarray | None = None
    draft_spread_seconds: np.ndarray | None = None
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
        for name in ("tokens", "contexts"):
            axis = check_array(name, getattr(self, name))
            if axis.ndim != 1 or axis.size == 0 or axis.dtype.kind not in "iu" or (axis[1:] <= axis[:-1]).any():
                raise InputError(f"{name} must be increasing whole numbers, got {axis.tolist()!s:.80}")
            if axis[0] < 0 or axis[-1] >= LARGEST_COUNT:
                raise InputError(f"{name} must be at least 0 and below 2**53, got {axis[0]} to {axis[-1]}")
            object.__setattr__(self, name, axis.astype(np.int64))
        if self.tokens[0] != 1:
            raise InputError(f"tokens must start at 1 (plain decoding), got {self.tokens.tolist()}")
        shape = (len(self.contexts), len(self.tokens))
        for name in ("target_seconds", "draft_seconds", "target_spread_seconds", "draft_spread_seconds"):
            if getattr(self, name) is None:
                continue
            seconds = check_array(name, getattr(self, name))
            if seconds.shape != shape:
                raise InputError(f"{name} must have shape (contexts, tokens) = {shape}, got {seconds.shape}")
            seconds = check_seconds(name, seconds, least=SHORTEST if name == "target_seconds" else 0)
            object.__setattr__(self, name, seconds)
        for name in SINGLE_TIMES:
            check_number(name, getattr(self, name), 0, LONGEST)
        check_types(Latency, vars(self))
        object.__setattr__(self, "verifier_seconds", _checked_verifiers(self.verifier_seconds))

    @classmethod
    def constant(cls, *, target_seconds: float = 1.0, draft_seconds: float = 0.0) -> Self:
        """A latency in which the time of a forward depends neither on its tokens nor on the context."""
        stamp = Provenance("spectheory.Latency.constant", assumptions=("a forward of any size takes the same time",))
        seconds = np.array([[target_seconds]]), np.array([[draft_seconds]])
        return cls(np.array([1]), np.array([0]), *seconds, computed=True, provenance=stamp)

    @classmethod
    def roofline(
        cls,
        *,
        gpu: str | Gpu,
        target: Named,
        draft: Named | None,
        batch: int = 1,
        context: int | None = None,
        lengths: tuple[float, float] | None = None,
        gpus: int = 1,
        engine: str = DEFAULT_ENGINE,
        costs: EngineCosts | None = None,
        parallel: Parallel | None = None,
        kv_dtype: str | None = None,
        drafted_share: float = 1.0,
    ) -> Self:
        """A latency computed by `spectheory.hardware.roofline`, not measured.

        Args:
            gpu: a name of the GPU, or a `Gpu`.
            target: the target: a shipped name, a config.json (path, folder or contents), or a `ModelConfig`.
            draft: the draft model, given in one of the same ways, or the kind of the draft, see `draft_of_kind`; None,
                `ngram` or `suffix` if drafts are looked up, which takes no time.
            batch: the number of sequences that run together in a forward.
            context: tokens of each sequence in the KV cache; the mean, if they differ. None is 1,024, or with `lengths`
                the mean of the contexts of a request.
            lengths: mean tokens of a prompt and of an answer. The prompts of new requests are then processed beside the
                steps (chunked prefill): `batch * prompt / answer` tokens a plain step, and tau times as many a cycle
                that yields tau tokens of each sequence. None counts no prompts.
            gpus: the number of GPUs.
            engine: the engine whose costs are used, such as `vllm`; for a version of it, `vllm@0.11`.
            costs: your own shares of peak rates and overheads; None uses those of the engine in the shipped table.
            parallel: how several GPUs share a model, see `Roofline`; None is usual for the engine: `layers` for `hf`
                and `llama.cpp`, otherwise `tensor`.
            kv_dtype: format of the KV caches, such as `fp8`; None keeps the one of the config.
            drafted_share: share of the sequences for which a step drafts, if drafts are looked up: see `Roofline`.

        Raises:
            InputError: the GPU or a model is unknown (the message lists similar names), a config lacks a field, the
                draft cannot draft for the target, a number is out of range, or the models and the cache do not fit into
                the memory of the GPUs.
        """
        given, (prompt, answer) = costs is not None, lengths or (0.0, 1.0)
        if context is None:
            context = DEFAULT_CONTEXT if lengths is None else round(prompt + answer / 2)
        first, second = pair_of(target, draft, context, kv_dtype)
        card, models = gpu_of(gpu), [first] if second is None else [first, second]
        place = Roofline(
            card,
            gpus,
            batch,
            context,
            EngineCosts.of(engine) if costs is None else costs,
            usual_parallel(engine) if parallel is None else parallel,
            batch * prompt / answer,
            drafted_share if second is None else 1.0,
        )
        place.require_memory(first, second)
        plain = [replace(one, design=None, prediction=None) for one in models]
        inputs = RooflineInputs(place, plain[0], plain[1] if second else None, engine, given)
        stamp = place.provenance(first, second, engine, given)
        return cls(
            np.array(TOKENS),
            np.array([context]),
            **inputs.seconds(TOKENS),
            drafting="at once" if second is not None and second.drafts_at_once else "levels",
            computed=True,
            provenance=stamp.replace(draft=lookup_named(draft)) if second is None and isinstance(draft, str) else stamp,
            inputs=inputs,
        )

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

    def target(self, tokens: int, context: int) -> float:
        """Seconds of one target forward of `tokens` tokens after `context` cached tokens."""
        return float(self._at(self.target_seconds, np.array(tokens), context))

    def draft(self, tokens: int, context: int) -> float:
        """Seconds of one draft forward of `tokens` tokens after `context` cached tokens."""
        return float(self._at(self.draft_seconds, np.array(tokens), context))

    def curves(self, most: int, context: int) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of draft forwards and of target forwards of 1, 2, ..., `most` tokens after `context` cached tokens.

        Returns:
            draft (most,) float64 and target (most,) float64.
        """
        tokens = np.arange(1, most + 1)
        return self._at(self.draft_seconds, tokens, context), self._at(self.target_seconds, tokens, context)

    def context_of(self, context: int | None) -> int:
        """The context for a plan: `context` after a check, or the middle one of the measured contexts for None.

        Outside the measured contexts, `target` and `draft` use the nearest context. That is meant for single cycles
        that run past the last context. A plan for a context that was not measured is refused here.

        Raises:
            InputError: the context is not a whole number of at least 0, or it is outside the measured contexts.
        """
        if context is None:
            return int(self.contexts[len(self.contexts) // 2])
        check_whole("context", context, 0)
        nearest = int(np.clip(context, self.contexts[0], self.contexts[-1]))
        if nearest != context:
            raise InputError(
                f"context must be within the measured {self.contexts[0]:,} to {self.contexts[-1]:,} cached tokens, got "
                f"{context:,}: measure there, or plan for the nearest, context={nearest}"
            )
        return int(context)

    def _at(self, seconds: np.ndarray, tokens: np.ndarray, context: int) -> np.ndarray:
        row = self._row(seconds, context)
        slope = (row[-1] - row[-2]) / (self.tokens[-1] - self.tokens[-2]) if len(row) > 1 else 0.0
        beyond = (tokens - self.tokens[-1]).clip(0)
        return np.interp(tokens, self.tokens, row) + max(0.0, slope) * beyond

    def _row(self, seconds: np.ndarray, context: int) -> np.ndarray:
        """Seconds at one context for each number of tokens: `np.interp` of each column."""
        at = int(np.searchsorted(self.contexts, context, side="right")) - 1
        if at < 0 or at == len(self.contexts) - 1:
            return seconds[max(at, 0)]
        slope = (seconds[at + 1] - seconds[at]) / (self.contexts[at + 1] - self.contexts[at])
        return slope * (context - self.contexts[at]) + seconds[at]

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


def _checked_verifiers(seconds: Any) -> dict[str, tuple[float, ...]]:
    every = seconds.items() if isinstance(seconds, Mapping) else [("", seconds)]
    for name, times in every:
        if not isinstance(name, str) or not isinstance(times, tuple | list) or len(times) != 3:
            raise InputError(
                "verifier_seconds must have three times in seconds, per cycle, per drafted level and per drafted node, "
                f"by the name of a verifier such as 'Traversal', got {times!r:.80} for {name!r:.60}"
            )
        for value in times:
            check_number(f"verifier_seconds[{name!r:.60}]", value, 0, LONGEST)
    return {name: tuple(map(float, times)) for name, times in every}
