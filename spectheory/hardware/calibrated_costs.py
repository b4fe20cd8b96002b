"""`CalibratedCosts`: the costs of an engine, calibrated on runs of one deployment, with what they make of each run.

The numbers of `EngineCosts` are moved by factors, and all times together by one more. The logarithm of a factor has a
prior around 0, whose width is the spread of the number in the shipped table, or `SHARED`; the logarithm of measured
over predicted seconds of a run has the width `NOISE`. The costs are found by least squares with a soft L1 loss of both:
like normal distributions near 0, with wider tails, so that neither one wrong run nor one number far from its shipped
value spoils the others. Few runs suffice, because what no run determines stays where it was. Both widths are estimated
on published measurements (docs/validation.md), and `benchmarks.validation` judges the fit on others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.record import Record
from spectheory.hardware.engine_costs import (
    DEFAULT_ENGINE,
    NAMES,
    EngineCosts,
    Parallel,
    chosen,
    lookup_share,
    origin,
    shipped_rows,
    split,
    usual_parallel,
)
from spectheory.hardware.gpus import Gpu
from spectheory.hardware.gpus import gpu as gpu_of
from spectheory.hardware.latency import Latency
from spectheory.hardware.models import Named, pair_of
from spectheory.hardware.roofline import RooflineInputs
from spectheory.hardware.runs import Run
from spectheory.hardware.timed_setup import SIXTEEN_BITS, TimedSetup

NOISE, SHARED = 0.05, 0.1
"""Standard deviations of the logarithm of measured over predicted seconds: of one run, and of all runs together."""
FARTHEST = 12.0
"""Largest logarithm of a factor, in spreads of its number."""
WIDE = 0.1
"""Least width of the residuals with which the fit starts."""
CLOSE, STEPS = 1e-12, 200
"""Tolerance of the fit, and its largest number of steps."""
LARGE = 0.15
"""A run with a larger residual contradicts the roofline, or other runs."""
NOTABLE = 0.05
"""A number that has moved by this share is worth showing."""
RATES = ("bandwidth_share", "cache_share", "state_share", "flops_share", "packed_flops_share")
"""The shares by which all times that are not stated in seconds are divided."""
PLAIN_ONLY = "no run unpacked the weights for several tokens: add a run with speculation"


@dataclass(frozen=True, eq=False, repr=False)
class CalibratedCosts(Record):
    """The costs of an engine, calibrated on runs of one deployment.

    Attributes:
        engine: the engine whose costs were moved, such as `vllm@0.11`.
        setup: the models and GPUs of the runs.
        runs: the runs.
        shipped: the costs before: those of the engine in the shipped table, unless other ones were given.
        factor: by what all times are multiplied before single numbers move.
        costs: the calibrated costs.
        provenance: who made the record, when, and what is assumed.

    Raises:
        InputError: there is no run, or a number is out of range.
    """

    kind: ClassVar[str] = "calibrated_costs"
    schema: ClassVar[int] = 7
    derived: ClassVar[tuple[str, ...]] = ("seconds_before", "seconds_after", "residuals")

    engine: str
    setup: TimedSetup
    runs: tuple[Run, ...]
    shipped: EngineCosts
    factor: float
    costs: EngineCosts
    provenance: Provenance

    def __post_init__(self) -> None:
        split(self.engine)
        if not self.runs:
            raise InputError("runs must contain at least one run")

    @cached_property
    def seconds_before(self) -> tuple[float, ...]:
        """The seconds of each run that the shipped costs predict."""
        return tuple(self.setup.seconds(run, self.shipped) for run in self.runs)

    @cached_property
    def seconds_after(self) -> tuple[float, ...]:
        """The seconds of each run that the calibrated costs predict."""
        return tuple(self.setup.seconds(run, self.costs) for run in self.runs)

    @property
    def residuals(self) -> tuple[float, ...]:
        """For each run, predicted over measured tokens per second after the calibration, minus 1."""
        return tuple(run.seconds / after - 1 for run, after in zip(self.runs, self.seconds_after, strict=True))

    @property
    def of_several_tokens(self) -> bool:
        """Whether a run verified drafts, or was a forward of several tokens; others say nothing about speculation."""
        return any(run.tokens > 1 for run in self.runs)

    @property
    def moved(self) -> dict[str, tuple[float, float]]:
        """The numbers that have moved by 5% or more, besides the factor: their values with it, and after the fit."""
        start = in_proportion(self.shipped, self.factor)
        found = {name: (getattr(start, name), getattr(self.costs, name)) for name in NAMES}
        return {name: (a, b) for name, (a, b) in found.items() if a > 0 and abs(math.log(b / a)) >= NOTABLE}

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence on each run with a residual above 15%, and on packed weights that no run unpacked for drafts."""
        packed = self.setup.target.linear_bytes < SIXTEEN_BITS and not self.of_several_tokens
        return ((PLAIN_ONLY,) if packed else ()) + tuple(
            f"{run.name} contradicts the time model{' or another run' if len(self.runs) > 1 else ''}: after the "
            f"calibration, {1 + residual:.2f} times its measured speed is predicted. Check its figures"
            for residual, run in zip(self.residuals, self.runs, strict=True)
            if abs(residual) > LARGE
        )

    @property
    def summary(self) -> str:
        """One line: what was calibrated, and how well the runs are reproduced."""
        return f"{self.engine} on {self.setup.gpus} x {self.setup.gpu.name}, {self.setup.target.name}: {self.said}"

    @property
    def said(self) -> str:
        """A clause on the runs and the residuals, for the assumptions of a plan."""
        many, largest = f"{len(self.runs)} run{'s' if len(self.runs) > 1 else ''}", max(map(abs, self.residuals))
        return f"the costs of {self.engine} were calibrated on {many}, largest residual {largest:.1%}"

    def latency(self, batch: int = 1, context: int = 1024) -> Latency:
        """The forward times and overheads of `batch` sequences with the calibrated costs.

        Raises:
            InputError: a number is out of range, or the models and the caches do not fit into memory.
        """
        place = vars(self.setup) | {"batch": batch, "context": context, "engine": self.engine}
        return self.noted(Latency.roofline(**place, costs=self.costs))

    def noted(self, computed: Latency) -> Latency:
        """Times that a roofline computed with these costs, with what is known about the calibration.

        Raises:
            InputError: engine, GPU, number of GPUs, target or format differ. The draft may be another one.
        """
        assert computed.inputs is not None
        said, inputs = self._said_of(computed.inputs), replace(computed.inputs, given=self.of_several_tokens)
        return replace(computed, provenance=computed.provenance.assuming(*said), inputs=inputs)

    def _said_of(self, inputs: RooflineInputs) -> tuple[str, ...]:
        own, place = self.setup, inputs.place
        versions = "@" in self.engine and "@" in inputs.engine
        agrees = {
            "engine": split(self.engine)[: 1 + versions] == split(inputs.engine)[: 1 + versions],
            "gpu": own.gpu == place.gpu,
            "gpus": own.gpus == place.gpus,
            "parallel": own.gpus == 1 or own.parallel == place.parallel,
            "target": replace(own.target, name="") == replace(inputs.target, name=""),
        }
        if wrong := [name for name, same in agrees.items() if not same]:
            raise InputError(
                f"costs were calibrated for {own.gpus} x {own.gpu.name}, {own.target.name}, {self.engine}, and the "
                f"deployment differs in {', '.join(wrong)}: calibrate on runs of the deployment, or pass the field "
                "`costs` of the record to use them all the same"
            )
        drafts = [None if draft is None else draft.name for draft in (own.draft, inputs.draft)]
        other = [f"the costs were calibrated with draft {drafts[0]} and are used for {drafts[1]}"]
        return (self.said, *self.warnings, *(other if drafts[0] != drafts[1] else []))


def calibrate(
    runs: Iterable[Run],
    *,
    gpu: str | Gpu,
    target: Named,
    draft: Named | None = None,
    gpus: int = 1,
    engine: str | None = None,
    parallel: Parallel | None = None,
    costs: EngineCosts | None = None,
) -> CalibratedCosts:
    """Calibrate the costs of an engine on a few measured runs of one deployment.

    Two plain runs, at batch 1 and at a large batch, and one speculative run are usually enough. Numbers that the runs
    do not determine keep their shipped values.

    Args:
        runs: the runs, from `spectheory.engines.read_runs` or `spectheory.engines.Run.from_throughput`. What they name
            must be the deployment.
        gpu: as for `Latency.roofline`, like all that describes the deployment.
        target: the target.
        draft: the draft; None if no run is speculative.
        gpus: the number of GPUs.
        parallel: how several GPUs share a model.
        engine: the engine that was measured, such as `vllm` or `vllm@0.11`; None is the one that the runs name, or
            `vllm`. A version that the runs name is added.
        costs: the costs from which the calibration starts; None is those of the engine in the shipped table.

    Raises:
        InputError: there is no run, a run names another deployment, is impossible on these GPUs, does not fit into
            memory, or a speculative run has no draft. See `Latency.roofline` too.

    >>> from spectheory.engines import Run
    >>> plain = [Run.from_throughput(150.0, context=512), Run.from_throughput(6000.0, batch=64, context=512)]
    >>> found = calibrate(plain, gpu="h100_sxm", target="llama-3.1-8b", draft="eagle3-llama-3.1-8b")
    >>> round(found.latency(1, 512).plain(512), 4)
    0.0067
    """
    known = tuple(runs) if isinstance(runs, Iterable) else (runs,)
    if not known or not all(isinstance(run, Run) for run in known):
        raise InputError(f"runs must be one run or more, such as read_runs(file).runs, got {known!r:.80}")
    engine = next((run.engine for run in known if run.engine), DEFAULT_ENGINE) if engine is None else engine
    versions = [run.version for run in known if run.version and run.version[:1].isdigit()]
    if "@" not in engine and versions:
        engine = f"{engine}@{versions[0]}"
    speculative = next((run for run in known if run.kind == "speculative"), None)
    if draft is None and speculative is not None:
        raise InputError(
            f"{speculative.where}a speculative run needs the draft: name a draft model or a head, or ngram if drafts "
            "are looked up"
        )
    first, second = pair_of(target, draft, math.ceil(max(run.context for run in known)))
    setup = TimedSetup(gpu_of(gpu), first, second, gpus, parallel or usual_parallel(engine))
    shipped = EngineCosts.of(engine) if costs is None else costs
    assumed = setup.require_named(known, engine)
    if second is None:
        known = tuple(
            replace(run, drafted_share=lookup_share(engine, run.tau, run.depth, run.drafted_share)) if run.tau else run
            for run in known
        )
    for run in known:
        setup.require_possible(run)
    stamp = Provenance.now(
        "spectheory.calibrate",
        packages=("scipy",),
        gpu=setup.gpu.name,
        gpus=gpus,
        target=first.name,
        draft=None if second is None else second.name,
        settings={"engine": engine},
    ).assuming(f"before the calibration, {origin(engine) if costs is None else 'the costs were given'}", *assumed)
    spreads = {name: row.spread for name, row in chosen(shipped_rows(), engine).items()}
    return CalibratedCosts(engine, setup, known, shipped, *fitted(known, setup, shipped, spreads), stamp)


def fitted(
    runs: Sequence[Run], setup: TimedSetup, costs: EngineCosts, spreads: Mapping[str, float]
) -> tuple[float, EngineCosts]:
    """The factor of all times, and the costs that explain `runs` best, starting from `costs`.

    A lone plain run does not tell why it is slower than predicted, so it moves all times and no ratio of times.
    """
    from scipy.optimize import least_squares

    if len(runs) == 1 and runs[0].tokens == 1:
        factor = runs[0].seconds / setup.seconds(runs[0], costs)
        return factor, in_proportion(costs, factor)
    names = [name for name in spreads if spreads[name] > 0 and getattr(costs, name) > 0]
    logarithms = np.log([run.seconds for run in runs])

    def moved(x: np.ndarray) -> tuple[float, EngineCosts]:
        factor = math.exp(SHARED * x[0])
        moves = {name: math.exp(spreads[name] * step) for name, step in zip(names, x[1:], strict=True)}
        return factor, in_proportion(_scaled(costs, moves), factor)

    def residuals(x: np.ndarray, width: float) -> np.ndarray:
        _, found = moved(x)
        return np.concatenate([(np.log([setup.seconds(run, found) for run in runs]) - logarithms) / width, x])

    room = {name: max(0.0, -math.log(getattr(costs, name))) for name in names if name.endswith("_share")}  # at most 1
    most = [FARTHEST, *(room.get(name, math.inf) / spreads[name] for name in names)]
    bounds = np.full(len(most), -FARTHEST), np.minimum(most, FARTHEST)
    x, widths = np.zeros(len(most)), [NOISE]
    while widths[-1] < WIDE:  # a soft L1 loss of residuals far above their width converges slowly
        widths.append(10 * widths[-1])
    for width in widths[::-1]:
        close = dict.fromkeys(("xtol", "ftol", "gtol"), CLOSE)
        x = least_squares(residuals, x, bounds=bounds, loss="soft_l1", max_nfev=STEPS, args=(width,), **close).x
    return moved(x)


def in_proportion(costs: EngineCosts, factor: float) -> EngineCosts:
    """The costs with which all times are `factor` times as long, so that no ratio of times changes."""
    slower = {name: factor for name in NAMES if name.endswith("_seconds")}
    return _scaled(costs, slower | dict.fromkeys(RATES, 1 / factor))


def _scaled(costs: EngineCosts, factors: Mapping[str, float]) -> EngineCosts:
    values = {name: getattr(costs, name) * factor for name, factor in factors.items()}
    return replace(costs, **{name: min(v, 1.0) if name.endswith("_share") else v for name, v in values.items()})
