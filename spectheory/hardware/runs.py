"""`Run`: one measured time of a deployment, from which its costs are calibrated, and the `Step` that it is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from spectheory.core.acceptance import LEAST_SHARE
from spectheory.core.checks import LONGEST, SHORTEST, check_number, check_whole
from spectheory.core.errors import InputError

KINDS = ("plain", "forward", "speculative")
"""What a run measures: a plain decoding step, one forward of several tokens, or a draft-and-verify cycle."""
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
    drafted_share: float | None = None


@dataclass(frozen=True)
class Run:
    """One measured time of a deployment.

    The names are those of the benchmark's file: a path of a model file, a GPU as its driver calls it. None means that
    the file does not say it.

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
        drafted_share: share of the sequences for which a cycle drafts. None: all, or for n-grams the `lookup_share`.
        prefill_tokens: prompt tokens per step that the engine processed between or within the measured steps; 0 if the
            prompts were processed before.
        model: the target.
        gpu: the GPU.
        gpus: number of GPUs.
        engine: the engine, as in `spectheory.engines.names()`.
        version: version of the engine.
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
    drafted_share: float | None = None
    model: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    engine: str | None = None
    version: str | None = None
    source: str = ""

    def __post_init__(self) -> None:
        where, drafted = self.where, self.kind == "speculative"
        if self.kind not in KINDS:
            raise InputError(f"{where}kind must be one of {', '.join(KINDS)}, got {self.kind!r:.60}")
        for name, least in (("batch", 1), ("context", 0), ("prefill_tokens", 0)):
            check_number(where + name, getattr(self, name), least)
        check_number(f"{where}seconds", self.seconds, SHORTEST, LONGEST)
        check_whole(f"{where}tokens", self.tokens, 1 + drafted, most=1 if self.kind == "plain" else None)
        if drafted and self.tau is None:
            raise missing_tau(self.source)
        check_whole(f"{where}depth", self.depth, int(drafted), most=self.tokens - 1 if drafted else 0)
        if drafted:
            check_number(f"{where}tau", self.tau, 1, (self.depth + 1) * (1 + ROUNDING))
        check_number(f"{where}drafted_share", 1 if self.drafted_share is None else self.drafted_share, LEAST_SHARE, 1)

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

        `tokens_per_second` counts the emitted tokens of all sequences together, or for a forward the tokens that it
        reads. The other arguments are the attributes; `context` is required.

        Raises:
            InputError: the throughput is not above 0, tau is missing, or as `Run`.

        >>> Run.from_throughput(200.0, batch=4, context=512).seconds
        0.02
        >>> Run.from_throughput(400.0, kind="speculative", batch=4, context=512, tokens=4, depth=3, tau=2.5).seconds
        0.025
        """
        check_number(f"{_where(source)}tokens_per_second", tokens_per_second, SHORTEST, LONGEST)
        for name, value in (("batch", batch), ("tokens", tokens), ("tau", 1 if tau is None else tau)):
            check_number(_where(source) + name, value, 1)
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
    """What a benchmark's file may not say about speculation. None means: as the file says.

    Attributes:
        tau: mean number of tokens of a sequence per cycle.
        nodes: drafted nodes per cycle, the root excluded.
        depth: levels of the verified tree, the root excluded; `nodes` if it is left out, a chain.

    Raises:
        InputError: a value is impossible.
    """

    tau: float | None = None
    nodes: int | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        if self.tau is not None:
            check_number("tau", self.tau, 1)
        for name in ("nodes", "depth"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1, ": for plain decoding leave it out")


def missing_tau(source: str) -> InputError:
    """The error for a speculative run without tau."""
    return InputError(
        f"{_where(source)}tau of a speculative run is missing, and without it the seconds per cycle = batch * tau / "
        "throughput are unknown: give the mean number of tokens per cycle that the engine reported"
    )


def _where(source: str) -> str:
    return f"{source}: " if source else ""
