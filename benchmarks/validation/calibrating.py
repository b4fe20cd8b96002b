"""Each deployment calibrated by `spectheory.calibrate` on a few of its own rows, and its other rows predicted so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.validation.errors import Prediction
from benchmarks.validation.predicting import cycle_of, plain_of, predict, prompt_seconds, setup_of
from benchmarks.validation.rows import Row, Unread
from spectheory import InputError, calibrate
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.runs import Run, Step

NEAR = 64
"""The second plain row of a calibration is the one whose batch is nearest to this number."""
MIDDLE = 16
"""The speculative row of a calibration is the one whose batch is nearest to this number."""


@dataclass(frozen=True)
class Chosen:
    """The rows on which a deployment is calibrated: one or two plain rows, and a speculative row; those that it has.

    The plain rows are of the same machine (source, engine, GPUs, placement, target): the one of the smallest batch and
    the one of another batch that is nearest to 64. The speculative row is the one whose batch is nearest to 16. Of
    several such rows the first is taken. For forwards of n tokens, n stands for the batch.
    """

    plain: tuple[Row, ...]
    spec: Row | None

    @classmethod
    def of(cls, machine: Sequence[Row], deployment: Sequence[Row]) -> Chosen:
        """The rows chosen among those of a machine and of one of its deployments."""
        plain = sorted((row for row in machine if row.plain_seconds is not None), key=lambda row: row.number)
        first = min(plain, key=_load, default=None)
        others = [row for row in plain if first is not None and _load(row) != _load(first)]
        second = min(others, key=lambda row: abs(_load(row) - NEAR), default=None)
        spec = sorted((row for row in deployment if row.gain is not None), key=lambda row: row.number)
        chosen = min(spec, key=lambda row: abs(row.batch - MIDDLE), default=None)
        return cls(tuple(row for row in (first, second) if row is not None), chosen)

    def costs(self, start: EngineCosts) -> EngineCosts:
        """The costs that `spectheory.calibrate` makes of `start` with the runs of these rows.

        If the speculative row states a speedup and no plain rate, its runs are a plain step with the seconds that the
        costs calibrated on the plain rows predict, and the cycle that the speedup then means.

        Raises:
            InputError: the runs are refused.
        """
        plain = [_run(plain_of(row), row.plain_seconds, row) for row in self.plain if row.plain_seconds is not None]
        found = _calibrated(plain, self.plain[0], start) if plain else start
        spec = self.spec
        if spec is None or (cycle := cycle_of(spec)) is None or (gain := spec.gain) is None:
            return found
        step = plain_of(spec)
        seconds = spec.plain_seconds or setup_of(spec).seconds(step, found)
        if spec.plain_seconds is None and not any(_is_of(run, step) for run in plain):
            plain.append(_run(step, seconds, spec))
        prompts = prompt_seconds(spec, seconds)
        measured = spec.tau * ((seconds + prompts) / gain - prompts)
        return _calibrated([*plain, _run(cycle, measured, spec, spec.tau)], spec, start)

    def marked(self, one: Prediction) -> Prediction:
        """`one`, marked where its own measurements were used, and where its batch is beyond those of the runs."""
        used = {_plain_run(row) for row in self.plain}
        spec = self.spec is not None and one.row.number == self.spec.number
        loads = [_load(row) for row in (*self.plain, self.spec) if row is not None]
        beyond = bool(loads) and not min(loads) <= _load(one.row) <= max(loads)
        return replace(one, plain_used=_plain_run(one.row) in used, gain_used=spec, beyond=beyond)


def calibrated(rows: Iterable[Row], start: Callable[[Row], EngineCosts]) -> tuple[list[Prediction], list[Unread]]:
    """The predictions after each deployment was calibrated, from the costs `start`.

    And the deployments that `spectheory.calibrate` refuses, by their first rows.
    """
    found: list[Prediction] = []
    refused: list[Unread] = []
    for machine in _divided(rows, lambda row: (row.machine, row.kind == "forward")):
        for deployment in _divided(machine, lambda row: (row.deployment, row.kind == "forward")):
            chosen, first = Chosen.of(machine, deployment), deployment[0]
            try:
                costs = chosen.costs(start(first))
            except InputError as error:
                refused.append(Unread(first.file, first.number, f"{first.source}: {first.target}", str(error)))
                continue
            found += [chosen.marked(Prediction(row, predict(row, costs))) for row in deployment]
    return sorted(found, key=lambda one: (one.row.file, one.row.number)), refused


def _calibrated(runs: Sequence[Run], row: Row, start: EngineCosts) -> EngineCosts:
    setup = setup_of(row)
    return calibrate(
        runs,
        gpu=setup.gpu,
        target=setup.target,
        draft=setup.draft or "none",
        gpus=setup.gpus,
        engine=row.engine_version,
        parallel=setup.parallel,
        costs=start,
    ).costs


def _run(step: Step, seconds: float, row: Row, tau: float | None = None) -> Run:
    return Run(**vars(step), seconds=seconds, tau=tau, source=f"{row.file} {row.number}")


def _is_of(run: Run, step: Step) -> bool:
    return all(getattr(run, name) == value for name, value in vars(step).items())


def _divided(rows: Iterable[Row], key: Callable[[Row], object]) -> list[list[Row]]:
    parts: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        parts[key(row)].append(row)
    return list(parts.values())


def _plain_run(row: Row) -> tuple[float | None, int, int]:
    """What tells two plain measurements of one machine apart: rows of one run repeat its plain rate."""
    return row.plain_rate, _load(row), row.context


def _load(row: Row) -> int:
    return row.nodes if row.kind == "forward" else row.batch
