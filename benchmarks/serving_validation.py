"""Judge the serving simulator on published curves: python -m benchmarks.serving_validation --out PAGE.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.validation.predicting import target_of
from benchmarks.validation.rows import MORE, PUBLISHED, Row, read
from simulate import Requests, Server, StepTimes, Tier, serve
from spectheory import Acceptance, CalibratedCosts, Deployment, InputError, Latency, Tree, calibrate
from spectheory.core.files import write_whole
from spectheory.engines import Run
from spectheory.report.tables import MISSING, TextTable, markdown_table
from spectheory.results.serving import ServingRun

AIM = 0.1
"""The largest median error of the published curves with which the command exits with 0."""
LEAST = 3
"""A curve needs this many points: two are calibrated on."""
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
        prompt: tokens of each prompt; `context` in the rows is a prompt and half of an answer.
        median_step: whether the source states the median of the steps, which has no prompt in it unless most steps do.
    """

    name: str
    source: str
    prompt: int = 300
    median_step: bool = False


FAMILIES = (
    Family("speedup by batch size", "EAGLE-3 paper table 3"),
    Family("time per token by concurrency", "aiconfigurator silicon sample", 1024),
    Family("plain step by maximum number of sequences", "ML.ENERGY leaderboard v3", median_step=True),
)


@dataclass(frozen=True)
class Curve:
    """The rows of one deployment and task, by rising number of sequences.

    Attributes:
        family: the kind of the curve.
        task: the task that the source names; empty without one.
        rows: the points.
        too_large: points whose sequences do not all fit into memory by the library, so that they cannot run at a time.
        errors: predicted / published rate or speedup - 1 by number of sequences, at all points but the first and last.
        reason: why the curve has no errors.
    """

    family: Family
    task: str
    rows: tuple[Row, ...]
    too_large: tuple[Row, ...] = ()
    errors: dict[int, float] = field(default_factory=dict)
    reason: str = ""

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
            parallel=first.parallel,
        )

    def _runs(self, row: Row) -> list[Run]:
        """What a point says about the seconds of a step. A speedup is one over the plain step as shipped."""
        output = self._output(row)
        read = row.batch * self.family.prompt / output
        if row.plain_seconds is not None:
            rare = self.family.median_step and row.batch / output < MOST_STEPS
            return [Run("plain", row.batch, row.context, row.plain_seconds, prefill_tokens=0.0 if rare else read)]
        assert row.gain
        latency = _place(row, "ngram", prompt_tokens=self.family.prompt, output_tokens=output).latency(row.batch)
        plain = latency.plain(row.context) + float(latency.prompts(1.0, drafted=False))
        cycle = row.tau * plain / row.gain
        shape = {"tokens": row.nodes + 1, "depth": row.depth, "tau": row.tau, "prefill_tokens": row.tau * read}
        return [
            Run("plain", row.batch, row.context, plain, prefill_tokens=read),
            Run("speculative", row.batch, row.context, cycle, **shape),
        ]

    def _output(self, row: Row) -> int:
        """Tokens of an answer."""
        return max(2, 2 * (row.context - self.family.prompt))

    @cached_property
    def times(self) -> StepTimes:
        """The times of the steps with the calibrated costs, at the contexts of the curve."""
        row, prompt = self.rows[0], self.family.prompt
        place = _place(row, "ngram" if row.kind == "plain" else row.draft, costs=self.costs.costs)
        longest = prompt + max(map(self._output, self.rows))
        return StepTimes.computed(place, most_sequences=self.rows[-1].batch, contexts=[0, prompt, longest])

    def error(self, row: Row) -> float:
        """Predicted rate or speedup / published - 1, simulated with as many requests as the source had sequences."""
        plain = self._simulated(row, Tier.off())
        if row.gain is not None:
            drafted = self._simulated(row, Tier.of(Tree.chain(row.depth), Acceptance.by_rank([rate_of(row)])))
            return _rate(drafted) / _rate(plain) / row.gain - 1
        assert row.plain_seconds
        assert plain.step_seconds is not None
        steps = np.diff(plain.step_seconds)
        late = steps[len(steps) // 2 :]
        return row.plain_seconds / float(np.median(late) if self.family.median_step else late.mean()) - 1

    def _simulated(self, row: Row, tier: Tier) -> ServingRun:
        """A closed loop. The first answers end at different times, so that the loop is steady from the start."""
        batch, output = row.batch, self._output(row)
        first = np.ceil(np.arange(1, batch + 1) / batch * output).astype(np.int64)
        more = np.full(int(batch * GENERATIONS), output)
        outputs = np.concatenate([np.maximum(first, 1), more])
        requests = Requests.closed(batch, np.full(len(outputs), self.family.prompt), outputs)
        server = Server(self.times, batch, kv_tokens=UNLIMITED)
        step = self.costs.latency(batch, row.context).plain(row.context)
        until = (GENERATIONS - 0.5) * output * step / float(tier.tau[0])
        return serve(tier, requests, server=server, until_seconds=until, keep_steps=True)


def _place(row: Row, draft: str, **given: Any) -> Deployment:
    setup = {"gpus": row.gpus, "engine": row.engine_version, "parallel": row.parallel}
    return Deployment(row.gpu, row.target, draft, **setup, **given)


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
    rows = [*read(PUBLISHED), *read(MORE)]
    for family in families:
        groups: dict[tuple[str, ...], dict[int, Row]] = {}
        for row in rows:
            if row.source == family.source:
                key = (*row.deployment, _task(row), *([] if family.median_step else [str(row.context)]))
                groups.setdefault(key, {}).setdefault(row.batch, row)
        for by_batch in groups.values():
            if len(by_batch) >= LEAST:
                ordered = [by_batch[batch] for batch in sorted(by_batch)]
                rows_inside = tuple(row for row in ordered if fits(row))
                too_large = tuple(row for row in ordered if row not in rows_inside)
                yield Curve(family, _task(ordered[0]), rows_inside, too_large)


def fits(row: Row) -> bool:
    """Whether the models and the caches of all sequences of a row fit into memory by the library."""
    draft = None if row.kind == "plain" else row.draft
    setup = {"batch": row.batch, "context": row.context, "gpus": row.gpus, "parallel": row.parallel}
    try:
        Latency.roofline(gpu=row.gpu, target=row.target, draft=draft, engine=row.engine_version, **setup)
    except InputError:
        return False
    return True


def _task(row: Row) -> str:
    """The task that the note of a row names; empty if it names none."""
    parts = row.note.split(", ")
    return parts[1] if row.source == "ML.ENERGY leaderboard v3" and len(parts) > 1 else ""


def judged(found: Iterable[Curve]) -> list[Curve]:
    """Every curve, calibrated on its first and last point and simulated at the others."""
    results = []
    for curve in found:
        errors, reason = {}, f"{len(curve.rows)} of its points fit into memory"
        if len(curve.rows) >= LEAST:
            try:
                errors, reason = {row.batch: curve.error(row) for row in curve.rows[1:-1]}, ""
            except InputError as error:
                reason = str(error)
        results.append(replace(curve, errors=errors, reason=reason))
    return results


def median_error(found: Iterable[Curve]) -> float:
    """The median of the sizes of the errors."""
    return median(abs(error) for one in found for error in one.errors.values())


def document(found: Sequence[Curve]) -> str:
    """The tables of the page."""
    parts = [_family_table(found)]
    for family in FAMILIES:
        parts += [f"## {family.name.capitalize()}", _curve_table(one for one in found if one.family == family)]
    if refused := [f"- {one.name}: {one.reason}." for one in found if one.reason]:
        parts += ["## Curves that were not judged", "\n".join(refused)]
    return "\n\n".join(parts)


def _family_table(found: Sequence[Curve]) -> str:
    rows = []
    groups = {family.name: [one for one in found if one.family == family] for family in FAMILIES}
    for name, own in {**groups, "all": found}.items():
        if errors := [abs(error) for one in own for error in one.errors.values()]:
            counted = (str(sum(bool(one.errors) for one in own)), str(len(errors)))
            rows.append((name, *counted, f"{median(errors):.1%}", f"{max(errors):.0%}"))
    header = ("curves of", "curves", "points", "median error", "largest")
    return markdown_table(TextTable("", header, tuple(rows))).strip()


def _curve_table(found: Iterable[Curve]) -> str:
    rows = []
    for one in found:
        if one.errors:
            shown = (f"{one.errors[row.batch]:+.0%}" for row in one.rows[1:-1])
            words = ("calibrated", *shown, "calibrated")
            errors = "; ".join(f"{row.batch}: {word}" for row, word in zip(one.rows, words, strict=True))
            left_out = ", ".join(str(row.batch) for row in one.too_large) or MISSING
            rows.append((one.name, f"{median_error([one]):.0%}", errors, left_out))
    header = ("curve", "median error", "error by number of sequences", "do not fit")
    return markdown_table(TextTable("", header, tuple(rows))).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 if the curves are off by more than the aim."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving_validation", description=__doc__)
    parser.add_argument("--out", type=Path, help="write the tables here, in Markdown")
    out, found = parser.parse_args(arguments).out, judged(curves())
    if out:
        write_whole(out, f"\n{document(found)}\n")
    print(_family_table(found))
    return int(median_error(found) > AIM)


if __name__ == "__main__":
    sys.exit(main())
