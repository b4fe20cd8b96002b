"""`Run`: one measured time of a deployment, from which its latency is calibrated, and the `Step` that it is of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from spectheory.core.checks import LONGEST, SHORTEST, check_whole
from spectheory.core.errors import InputError

KINDS = ("plain", "forward", "speculative")
"""What a run measures: a plain decoding step, one forward of several tokens, or a draft-and-verify cycle."""
NAMES = ("model", "draft", "gpu", "engine", "version", "quantisation", "kv_dtype")
"""The names that a run can have."""
ROUNDING = 1e-6


@dataclass(frozen=True)
class Step:
    """What is timed: a plain decoding step, a forward or a cycle of a batch. The attributes are those of `Run`."""

    kind: str
    batch: float
    context: float
    tokens: int = 1
    depth: int = 0
    prefill_tokens: float = 0.0


@dataclass(frozen=True)
class Run:
    """One measured time of a deployment.

    The names are those of the benchmark's file: a path of a model file, an engine's name of a format, a GPU as its
    driver calls it. None means that the file does not say it.

    Attributes:
        kind: "plain" for a decoding step of a batch, "forward" for one forward of `tokens` tokens of each sequence,
            "speculative" for a draft-and-verify cycle of a batch.
        batch: mean number of sequences that run together, at least 1; in serving it need not be whole.
        context: mean number of tokens of a sequence that are in the KV cache before the forward.
        seconds: seconds of the step, the forward or the cycle.
        tokens: tokens of a sequence in the target's forward: 1 for a plain step, the verified nodes and the root for a
            cycle.
        depth: levels of the verified tree, the root excluded; 0 without speculation.
        tau: mean number of tokens of a sequence per cycle; None without speculation.
        prefill_tokens: prompt tokens per step that the engine processed between or within the measured steps; 0 if the
            prompts were processed before.
        model: the target.
        draft: the draft.
        gpu: the GPU.
        gpus: number of GPUs.
        engine: the engine, as in `spectheory.engines.names()`.
        version: version of the engine.
        quantisation: format of the weights.
        kv_dtype: format of the KV cache.
        source: where the figures are from, such as "bench.json, entry 2 (tg128)".

    Raises:
        InputError: a value is impossible, or it contradicts the kind of the run.
    """

    kind: str
    batch: float
    context: float
    seconds: float
    tokens: int = 1
    depth: int = 0
    tau: float | None = None
    prefill_tokens: float = 0.0
    model: str | None = None
    draft: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    engine: str | None = None
    version: str | None = None
    quantisation: str | None = None
    kv_dtype: str | None = None
    source: str = ""

    def __post_init__(self) -> None:
        where = self.where
        if self.kind not in KINDS:
            raise InputError(f"{where}kind must be one of {', '.join(KINDS)}, got {self.kind!r:.60}")
        for name, least in (("batch", 1), ("context", 0), ("prefill_tokens", 0)):
            _check_number(where + name, getattr(self, name), least)
        _check_number(f"{where}seconds", self.seconds, SHORTEST, LONGEST)
        check_whole(f"{where}tokens", self.tokens, 1)
        check_whole(f"{where}depth", self.depth, 0)
        if self.gpus is not None:
            check_whole(f"{where}gpus", self.gpus, 1)
        for name in NAMES:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value):
                raise InputError(f"{where}{name} must be a name, or None if it is unknown, got {value!r:.60}")
        self._check_shape()

    def _check_shape(self) -> None:
        """Check that tokens, depth and tau fit the kind of the run."""
        if self.kind != "speculative":
            if self.kind == "plain" and self.tokens != 1:
                raise InputError(f"{self.where}tokens of a plain step must be 1, got {self.tokens}: use kind 'forward'")
            if self.depth or self.tau is not None:
                raise InputError(
                    f"{self.where}depth and tau are for kind 'speculative', got depth={self.depth}, tau={self.tau} "
                    f"with kind {self.kind!r}: leave them out"
                )
            return
        if self.tau is None:
            raise missing_tau(self.source)
        if not 1 <= self.depth <= self.tokens - 1:
            raise InputError(
                f"{self.where}depth of a speculative run must be between 1 and its verified nodes, tokens - 1 = "
                f"{self.tokens - 1}, got {self.depth}: give the levels of the tree, for a chain its length"
            )
        _check_number(f"{self.where}tau", self.tau, 1)
        if self.tau > (self.depth + 1) * (1 + ROUNDING):
            raise InputError(
                f"{self.where}tau must be at most {self.depth + 1}, one token per level and one more, got "
                f"{self.tau:g}: give the tokens per cycle of a tree with depth={self.depth}"
            )

    @classmethod
    def from_throughput(
        cls,
        tokens_per_second: float,
        *,
        kind: str = "plain",
        batch: float = 1,
        tokens: int = 1,
        tau: float | None = None,
        source: str = "",
        **more: Any,
    ) -> Self:
        """A run from the throughput of the whole batch.

        The seconds are batch / throughput for a plain step, batch * tokens / throughput for a forward, and
        batch * tau / throughput for a cycle.

        Args:
            tokens_per_second: tokens per second of all sequences together: emitted tokens, or for a forward the tokens
                that it reads.
            kind: as the attribute.
            batch: as the attribute.
            tokens: as the attribute.
            tau: as the attribute.
            source: as the attribute.
            **more: the other attributes, of which `context` is required.

        Raises:
            InputError: the throughput is not above 0, tau is missing, or as `Run`.

        >>> Run.from_throughput(200.0, batch=4, context=512).seconds
        0.02
        >>> Run.from_throughput(400.0, kind="speculative", batch=4, context=512, tokens=4, depth=3, tau=2.5).seconds
        0.025
        """
        _check_number(f"{_where(source)}tokens_per_second", tokens_per_second, SHORTEST, LONGEST)
        for name, value in (("batch", batch), ("tokens", tokens), ("tau", 1 if tau is None else tau)):
            _check_number(_where(source) + name, value, 1)
        emitted = {"forward": tokens, "speculative": tau}.get(kind) or 1
        more |= {"tokens": tokens, "tau": tau, "source": source}
        return cls(kind, batch, seconds=batch * emitted / tokens_per_second, **more)

    @property
    def name(self) -> str:
        """The source, or the kind and the batch."""
        return self.source or f"the {self.kind} run at batch {self.batch:g}"

    @property
    def where(self) -> str:
        """The source as the beginning of an error message; empty if there is none."""
        return _where(self.source)

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of the whole batch: emitted tokens, or for a forward the tokens that it reads."""
        each = self.tokens if self.kind == "forward" else self.tau or 1
        return self.batch * each / self.seconds


@dataclass(frozen=True)
class Conditions:
    """Conditions of a benchmark that its file may not say. None means: as the file says.

    Attributes:
        batch: number of sequences that run together.
        speculative: whether the engine speculated. Also true if `tau`, `nodes` or `depth` is given.
        tau: mean number of tokens of a sequence per cycle.
        nodes: drafted nodes per cycle, the root excluded.
        depth: levels of the verified tree, the root excluded; `nodes` if it is left out, a chain.

    Raises:
        InputError: a value is impossible, or the values contradict each other.
    """

    batch: float | None = None
    speculative: bool | None = None
    tau: float | None = None
    nodes: int | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("batch", 1), ("tau", 1)):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), least)
        for name in ("nodes", "depth"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1, ": for plain decoding leave it out")
        given = [name for name in ("tau", "nodes", "depth") if getattr(self, name) is not None]
        if given and self.speculative is False:
            raise InputError(f"speculative=False contradicts {', '.join(given)}: leave out one of them")


def missing_tau(source: str) -> InputError:
    """The error for a speculative run without tau."""
    return InputError(
        f"{_where(source)}tau of a speculative run is missing, and without it the seconds per cycle = batch * tau / "
        "throughput are unknown: give the mean number of tokens per cycle that the engine reported"
    )


def _where(source: str) -> str:
    return f"{source}: " if source else ""


def _check_number(name: str, value: Any, least: float, most: float = math.inf) -> None:
    """Refuse a value that is not a finite number from `least` to `most`."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not least <= value <= most:
        bounds = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise InputError(f"{name} must be a number {bounds}, got {value!r:.60}")
