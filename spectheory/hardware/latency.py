"""Latency: seconds per forward pass of the target and of the draft, measured or by a roofline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.provenance import UNKNOWN, Provenance
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.gpus import Gpu
from spectheory.hardware.gpus import gpu as gpu_of
from spectheory.hardware.library import MEASURE, device_key, find
from spectheory.hardware.models import ModelConfig, require_pair
from spectheory.hardware.models import model as model_of
from spectheory.hardware.roofline import DERATES, TOKENS, Derates, Roofline


@dataclass(frozen=True, eq=False, repr=False)
class Latency(Record):
    """Seconds per forward of n tokens behind a context, for both models, and what a cycle costs beside them.

    Between measured points the seconds are interpolated linearly in tokens and in context. Beyond the last number of
    tokens the last slope goes on; beyond the measured contexts the nearest one holds.

    Attributes:
        tokens: (N,) increasing numbers of tokens per forward, the first is 1.
        contexts: (C,) increasing numbers of tokens in the KV cache.
        target_seconds: (C, N) median seconds of a target forward.
        draft_seconds: (C, N) median seconds of a draft forward.
        target_spread_seconds: (C, N) interquartile range, or None.
        draft_spread_seconds: (C, N) interquartile range, or None.
        overhead_seconds: seconds of a draft-and-verify cycle outside the forwards, whatever its tree.
        level_overhead_seconds: seconds outside the forwards for each level that is drafted.
        plain_overhead_seconds: seconds of a plain decoding step outside its forward.
        computed: whether the seconds come from `roofline` or `constant`, and not from a measurement.
    """

    kind: ClassVar[str] = "latency"
    schema: ClassVar[int] = 2

    tokens: np.ndarray
    contexts: np.ndarray
    target_seconds: np.ndarray
    draft_seconds: np.ndarray
    target_spread_seconds: np.ndarray | None = None
    draft_spread_seconds: np.ndarray | None = None
    overhead_seconds: float = 0.0
    level_overhead_seconds: float = 0.0
    plain_overhead_seconds: float = 0.0
    computed: bool = False
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        for name in ("tokens", "contexts"):
            axis = np.asarray(getattr(self, name))
            if axis.ndim != 1 or axis.size == 0 or axis.dtype.kind not in "iu" or (np.diff(axis) <= 0).any():
                raise InputError(f"{name} must be increasing whole numbers, got {axis.tolist()}")
            object.__setattr__(self, name, axis)
        if self.tokens[0] != 1:
            raise InputError(f"tokens must start at 1 (plain decoding), got {self.tokens.tolist()}")
        shape = (len(self.contexts), len(self.tokens))
        for name in ("target_seconds", "draft_seconds", "target_spread_seconds", "draft_spread_seconds"):
            if getattr(self, name) is None:
                continue
            seconds = np.asarray(getattr(self, name), dtype=np.float64)
            if seconds.shape != shape:
                raise InputError(f"{name} must have shape (contexts, tokens) = {shape}, got {seconds.shape}")
            least = np.nextafter(0, 1) if name == "target_seconds" else 0.0
            if not (np.isfinite(seconds) & (seconds >= least)).all():
                bound = "above 0" if least else "at least 0"
                raise InputError(f"{name} must be finite and {bound}, got a smallest value of {seconds.min()}")
            object.__setattr__(self, name, seconds)
        for name in ("overhead_seconds", "level_overhead_seconds", "plain_overhead_seconds"):
            if not 0 <= getattr(self, name) < np.inf:
                raise InputError(f"{name} must be finite and at least 0, got {getattr(self, name)}")

    @classmethod
    def constant(cls, *, target_seconds: float = 1.0, draft_seconds: float = 0.0) -> Self:
        """Forwards whose time does not depend on their size: the usual assumption of theory."""
        stamp = Provenance(
            source="spectheory.Latency.constant", assumptions=("a forward takes the same time whatever its size",)
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
        draft: str | Path | Mapping[str, Any] | ModelConfig,
        batch: int = 1,
        context: int = 1024,
        tokens: Iterable[int] | None = None,
        gpus: int = 1,
        derates: Derates = DERATES,
    ) -> Self:
        """Computed, not measured, for `batch` sequences that run together: see `spectheory.hardware.roofline`.

        Where `measured` has a record of the same, that overrides this one.

        Its `tokens` count those of one sequence in a forward, of which there are `batch` times as many; the default
        goes up to 256. A model is a shipped name, a config.json (path, folder or contents) or a `ModelConfig`.

        Raises:
            InputError: an unknown GPU or model (near names are listed), a config that lacks a field, a draft that
                cannot draft for the target, a size below 1, or models and cache that the memory of the GPU cannot hold.
        """
        place = Roofline(gpu_of(gpu), gpus=gpus, batch=batch, context=context, derates=derates)
        both = model_of(target), model_of(draft)
        grid = TOKENS if tokens is None else tuple(tokens)
        require_pair(*both, context)
        place.require_memory(*both)
        target_seconds, draft_seconds = (place.forward_seconds(model, grid)[None] for model in both)
        return cls(
            np.array(grid),
            np.array([context]),
            target_seconds,
            draft_seconds,
            overhead_seconds=derates.step_overhead_seconds,
            level_overhead_seconds=derates.level_overhead_seconds,
            plain_overhead_seconds=derates.step_overhead_seconds,
            computed=True,
            provenance=place.provenance(*both),
        )

    @classmethod
    def measured(cls, *, gpu: str, target: str, draft: str, batch: int = 1, folder: Path | None = None) -> Self:
        """The record of `hardware.library` measured on that GPU for `batch` sequences that run together, by names.

        Args:
            gpu: a known key or name, or what the driver calls one that is not known.
            target: the name that it was measured under.
            draft: likewise.
            batch: as in `roofline`.
            folder: of records; the default is those that come with the package.

        Raises:
            InputError: there is no such record (those that there are are listed), or it is one of other models, of
                another GPU or batch size, or of times that were computed.
            RecordError: it is damaged.
        """
        text, where = find(gpu, target, draft, batch, folder)
        record = cls.from_text(text, where)
        if record.computed:
            raise InputError(f"{where} holds computed times, not measured ones: {MEASURE}, or remove it")
        _require_place(record.provenance, where, gpu=device_key(gpu), target=target, draft=draft, batch=batch)
        return record

    @property
    def summary(self) -> str:
        """The forwards of one token at the first context, and the sizes that are covered."""
        target, draft = 1e3 * self.target_seconds[0, 0], 1e3 * self.draft_seconds[0, 0]
        first, last = self.contexts[[0, -1]]
        return (
            f"{'computed' if self.computed else 'measured'}; 1 token after {first:,}: target {target:.3g} ms, draft "
            f"{draft:.3g} ms; up to {self.tokens[-1]:,} tokens, contexts {first:,} to {last:,}"
        )

    @property
    def batch(self) -> int:
        """Sequences that run together in a forward, by the provenance; 1 where it does not say."""
        return self.provenance.batch or 1

    def covers(self, context: int) -> bool:
        """Whether `context` is within the measured contexts."""
        return bool(self.contexts[0] <= context <= self.contexts[-1])

    def smoothed(self) -> Self:
        """The nearest curves that do not fall as tokens are added (least squares, context by context)."""
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
        """Seconds of one target forward of `tokens` behind `context` cached tokens."""
        return float(self._at(self.target_seconds, np.array(tokens), context))

    def draft(self, tokens: int, context: int) -> float:
        """Seconds of one draft forward of `tokens` behind `context` cached tokens."""
        return float(self._at(self.draft_seconds, np.array(tokens), context))

    def curves(self, most: int, context: int) -> tuple[np.ndarray, np.ndarray]:
        """Each (most,): seconds of draft and of target forwards of 1, ..., `most` tokens behind `context` cached."""
        tokens = np.arange(1, most + 1)
        return self._at(self.draft_seconds, tokens, context), self._at(self.target_seconds, tokens, context)

    def context_of(self, context: int | None) -> int:
        """`context` to plan for, checked; None is the middle of the measured contexts.

        Raises:
            InputError: it is not a whole number of at least 0, or outside the measured contexts. That the nearest one
                holds beyond them is meant for a cycle that runs over the edge, not for a plan of another context.
        """
        if context is None:
            return int(self.contexts[len(self.contexts) // 2])
        if isinstance(context, bool) or not isinstance(context, int | np.integer) or context < 0:
            raise InputError(f"context must be a whole number of at least 0 cached tokens, got {context!r:.80}")
        nearest = int(np.clip(context, self.contexts[0], self.contexts[-1]))
        if nearest != context:
            raise InputError(
                f"context must be within the measured {self.contexts[0]:,} to {self.contexts[-1]:,} cached tokens, got "
                f"{context:,}: measure there, or plan for the nearest, context={nearest}"
            )
        return int(context)

    def draft_levels(self, tree: Tree, context: int) -> float:
        """Seconds of the draft forwards that grow `tree`: one for each level, as wide as its inner nodes."""
        widths, counts = np.unique(tree.level_widths(), return_counts=True)
        return float(sum(n * self.draft(int(w), context) for w, n in zip(widths, counts, strict=True)))

    def overhead(self, tree: Tree) -> float:
        """Seconds of a cycle outside the forwards; of a plain step for the root alone."""
        if tree.budget == 0:
            return self.plain_overhead_seconds
        return self.overhead_seconds + tree.max_depth * self.level_overhead_seconds

    def cycle(self, tree: Tree, context: int) -> float:
        """Seconds of one cycle: grow `tree` level by level, verify root and tree in one target forward, overhead."""
        return self.draft_levels(tree, context) + self.target(tree.budget + 1, context) + self.overhead(tree)

    def plain(self, context: int) -> float:
        """Seconds per token of plain autoregressive decoding."""
        return self.cycle(Tree.chain(0), context)

    def _at(self, seconds: np.ndarray, tokens: np.ndarray, context: int) -> np.ndarray:
        row = np.array([np.interp(context, self.contexts, column) for column in seconds.T])
        slope = (row[-1] - row[-2]) / (self.tokens[-1] - self.tokens[-2]) if len(row) > 1 else 0.0
        beyond = (tokens - self.tokens[-1]).clip(0)
        return np.interp(tokens, self.tokens, row) + max(0.0, slope) * beyond


def _require_place(stamp: Provenance, where: str, **asked: str | int) -> None:
    """Check that what a record says of its measurement is what it is filed under, as far as it says."""
    on_gpu = stamp.gpu or (stamp.device if stamp.device and not stamp.device.startswith(("cuda", "cpu")) else None)
    found = {"gpu": on_gpu and device_key(on_gpu), "target": stamp.target, "draft": stamp.draft, "batch": stamp.batch}
    for name, there in found.items():
        if there is not None and there != asked[name]:
            raise InputError(f"{where} was measured for {name} {there}, not {asked[name]}: move it to where it belongs")
