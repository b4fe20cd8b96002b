"""Published serving curves: calibrated on their first and last point, and simulated at the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.validation.names import target_of
from benchmarks.validation.predicting import PARALLEL
from benchmarks.validation.rows import Row, read
from simulate import Requests, Server, StepTimes, Tier, serve
from spectheory import Acceptance, CalibratedCosts, Deployment, InputError, Latency, Tree, calibrate
from spectheory.engines import Run
from spectheory.results.serving import ServingRun

FILES = tuple(Path(__file__).parents[1] / "validation" / name for name in ("published.csv", "more.csv"))
LEAST = 3
"""A curve needs this many points: two are calibrated on."""
PROMPT = 300
"""Tokens of a prompt where the source does not state them; `context` is then a prompt and half of an answer."""
UNLIMITED = 2**40
"""Tokens of KV memory: the published numbers of sequences are those that ran at a time."""
MOST_STEPS = 0.5
"""Requests that start per step, from which on the median of the steps reads a prompt."""
GENERATIONS = 2.5
"""Answers that each sequence decodes in a simulation, one after the other."""


@dataclass(frozen=True)
class Family:
    """Curves of one kind.

    Attributes:
        name: what is plotted against the number of sequences.
        source: the source of the rows.
        prompt: tokens of each prompt.
        median_step: whether the source states the median of the steps, which has no prompt in it unless most steps do.
    """

    name: str
    source: str
    prompt: int = PROMPT
    median_step: bool = False


FAMILIES = (
    Family("speedup by batch size", "EAGLE-3 paper table 3"),
    Family("time per token by concurrency", "aiconfigurator silicon sample", 1024),
    Family("plain step by maximum number of sequences", "ML.ENERGY leaderboard v3", median_step=True),
)


@dataclass(frozen=True)
class Point:
    """A point of a curve: seconds of a step, or a speedup, as published and as simulated."""

    row: Row
    published: float
    simulated: float
    calibrated_on: bool

    @property
    def error(self) -> float:
        """Predicted rate or speedup divided by the published one, minus 1."""
        gain = self.row.kind != "plain"
        return self.simulated / self.published - 1 if gain else self.published / self.simulated - 1


@dataclass(frozen=True)
class Curve:
    """The rows of one deployment and task, by rising number of sequences.

    Attributes:
        family: the kind of the curve.
        task: the task that the source names; empty without one.
        rows: the points.
        too_large: points whose sequences do not all fit into memory by the library, so that they cannot run at a time.
    """

    family: Family
    task: str
    rows: tuple[Row, ...]
    too_large: tuple[Row, ...] = ()

    @property
    def name(self) -> str:
        """The deployment, and the task if the source names one."""
        row = (*self.rows, *self.too_large)[0]
        models = row.target if row.draft == "none" else f"{row.target}, {row.draft}"
        return f"{row.engine}, {row.gpus} x {row.gpu}, {models}{f', {self.task}' if self.task else ''}"

    @cached_property
    def costs(self) -> CalibratedCosts:
        """The costs of the engine, calibrated on the first and the last point. Raises InputError as `calibrate`."""
        first = self.rows[0]
        return calibrate(
            [run for row in (first, self.rows[-1]) for run in self._runs(row)],
            gpu=first.gpu,
            target=target_of(first.target),
            draft=None if first.kind == "plain" else first.draft,
            gpus=first.gpus,
            engine=first.engine_version,
            parallel=PARALLEL[first.placement],
        )

    def _runs(self, row: Row) -> list[Run]:
        """What a point says about the seconds of a step. A speedup is one over the plain step as shipped."""
        output = self._output(row)
        read = row.batch * self.family.prompt / output
        if row.plain_seconds is not None:
            rare = self.family.median_step and row.batch / output < MOST_STEPS
            return [Run("plain", row.batch, row.context, row.plain_seconds, prefill_tokens=0.0 if rare else read)]
        assert row.gain
        plain = self._plain_as_shipped(row, output)
        cycle = row.tau * plain / row.gain
        shape = {"tokens": row.nodes + 1, "depth": row.depth, "tau": row.tau, "prefill_tokens": row.tau * read}
        return [
            Run("plain", row.batch, row.context, plain, prefill_tokens=read),
            Run("speculative", row.batch, row.context, cycle, **shape),
        ]

    def _plain_as_shipped(self, row: Row, output: int) -> float:
        """Seconds of a plain step with the shipped costs, and of the prompts that are read beside it."""
        place = Deployment(
            row.gpu,
            row.target,
            "ngram",
            gpus=row.gpus,
            engine=row.engine_version,
            prompt_tokens=self.family.prompt,
            output_tokens=output,
        )
        latency = place.latency(row.batch)
        return latency.plain(row.context) + float(latency.prompts(1.0, drafted=False))

    def _output(self, row: Row) -> int:
        """Tokens of an answer."""
        return max(2, 2 * (row.context - self.family.prompt))

    @cached_property
    def times(self) -> StepTimes:
        """The times of the steps with the calibrated costs, at the contexts of the curve."""
        row, prompt = self.rows[0], self.family.prompt
        place = Deployment(
            row.gpu,
            row.target,
            "ngram" if row.kind == "plain" else row.draft,
            gpus=row.gpus,
            engine=row.engine_version,
            parallel=PARALLEL[row.placement],
            costs=self.costs.costs,
        )
        longest = prompt + max(map(self._output, self.rows))
        return StepTimes.computed(place, most_sequences=self.rows[-1].batch, contexts=[0, prompt, longest])

    def points(self) -> list[Point]:
        """Every point, simulated in a closed loop of as many requests as the source had sequences."""
        ends = (self.rows[0], self.rows[-1])
        return [Point(row, *self._compared(row), row in ends) for row in self.rows]

    def _compared(self, row: Row) -> tuple[float, float]:
        """The figure of the source and of the simulation."""
        plain = self._simulated(row, Tier.off())
        if row.kind == "plain":
            assert row.plain_seconds
            assert plain.step_seconds is not None
            steps = np.diff(plain.step_seconds)
            late = steps[len(steps) // 2 :]
            return row.plain_seconds, float(np.median(late) if self.family.median_step else late.mean())
        assert row.gain
        drafted = self._simulated(row, Tier.of(Tree.chain(row.depth), Acceptance.by_rank([rate_of(row)])))
        return row.gain, _rate(drafted) / _rate(plain)

    def _simulated(self, row: Row, tier: Tier) -> ServingRun:
        """A closed loop. The first answers end at different times, so that the loop is steady from the start."""
        batch, output = row.batch, self._output(row)
        first = np.ceil(np.arange(1, batch + 1) / batch * output).astype(np.int64)
        more = np.full(int(batch * GENERATIONS), output)
        outputs = np.concatenate([np.maximum(first, 1), more])
        requests = Requests.closed(batch, np.full(len(outputs), self.family.prompt), outputs)
        server = Server(self.times, batch, kv_tokens=UNLIMITED)
        step = self.costs.setup.latency(batch, row.context, self.costs.costs, row.engine_version).plain(row.context)
        until = (GENERATIONS - 0.5) * output * step / float(tier.tau[0])
        return serve(tier, requests, server=server, until_seconds=until, keep_steps=True)


def rate_of(row: Row) -> float:
    """The rate of every token of a chain that gives the tau of a row."""
    missing = np.ones(row.depth + 1)
    missing[-1] -= row.tau
    return float(max(root.real for root in np.roots(missing) if not root.imag))


def _rate(run: ServingRun) -> float:
    """Tokens per second of all cycles."""
    assert run.step_batch is not None
    return (run.accepted + int(run.step_batch.sum())) / run.seconds


def curves(families: Iterable[Family] = FAMILIES) -> Iterator[Curve]:
    """The curves of the published rows, of at least `LEAST` different numbers of sequences."""
    rows = [row for file in FILES for row in read(file)]
    for family in families:
        groups: dict[tuple[str, ...], dict[int, Row]] = {}
        for row in rows:
            if row.source == family.source:
                key = (*row.deployment, task_of(row), *([] if family.median_step else [str(row.context)]))
                groups.setdefault(key, {}).setdefault(row.batch, row)
        for by_batch in groups.values():
            if len(by_batch) >= LEAST:
                ordered = [by_batch[batch] for batch in sorted(by_batch)]
                inside = [fits(row) for row in ordered]
                known, apart = (
                    tuple(row for row, inner in zip(ordered, inside, strict=True) if inner is wanted)
                    for wanted in (True, False)
                )
                yield Curve(family, task_of(ordered[0]), known, apart)


def fits(row: Row) -> bool:
    """Whether the models and the caches of all sequences of a row fit into memory by the library."""
    parallel, draft = PARALLEL[row.placement], None if row.kind == "plain" else row.draft
    setup = {"batch": row.batch, "context": row.context, "gpus": row.gpus, "parallel": parallel}
    try:
        Latency.roofline(gpu=row.gpu, target=row.target, draft=draft, engine=row.engine_version, **setup)
    except InputError:
        return False
    return True


def task_of(row: Row) -> str:
    """The task that the note of a row names; empty if it names none."""
    parts = row.note.split(", ")
    return parts[1] if row.source == "ML.ENERGY leaderboard v3" and len(parts) > 1 else ""


@dataclass(frozen=True)
class JudgedCurve:
    """A curve with its simulated points, or the reason why it has none."""

    curve: Curve
    points: tuple[Point, ...]
    reason: str = ""

    @property
    def errors(self) -> list[float]:
        """The errors at the points that were not calibrated on."""
        return [point.error for point in self.points if not point.calibrated_on]


def judged(found: Iterable[Curve]) -> list[JudgedCurve]:
    """Every curve, calibrated and simulated."""
    results = []
    for curve in found:
        if len(curve.rows) < LEAST:
            results.append(JudgedCurve(curve, (), f"{len(curve.rows)} of its points fit into memory"))
            continue
        try:
            results.append(JudgedCurve(curve, tuple(curve.points())))
        except InputError as error:
            results.append(JudgedCurve(curve, (), str(error)))
    return results


def median_error(found: Sequence[JudgedCurve]) -> float:
    """The median of the sizes of the errors."""
    return median(abs(error) for one in found for error in one.errors)
