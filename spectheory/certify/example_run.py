"""A run that shows the fault of a step: what was drafted, which random numbers were drawn, and what was emitted."""

from __future__ import annotations

import time
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from spectheory.certify.batch_runs import BatchRuns
from spectheory.certify.certificate import text
from spectheory.certify.shown_run import ShownRun
from spectheory.certify.trial import BrokenStepError, NeverEmittedError, Trial
from spectheory.core.world import Context

MOST_RUNS = 2_000
"""Number of runs, or of batches, in which an example is looked for, at most."""
MOST_SECONDS = 2.0
LONGEST = 150
"""Characters of a line."""
METHODS = (
    "random", "choice", "integers", "permutation", "uniform", "exponential", "standard_exponential", "gumbel",
    "multinomial", "normal", "standard_normal",
)  # fmt: skip


class Recorder(np.random.Generator):
    """A generator of NumPy that records what it returns.

    Attributes:
        coins: the results so far, in order.
    """

    def __init__(self, seed: int, number: int) -> None:
        super().__init__(np.random.PCG64([seed, number]))
        self.coins: list[Any] = []


def _recorded(method: str) -> Any:
    def draw(self: Recorder, *given: Any, **named: Any) -> Any:
        drawn = getattr(np.random.Generator, method)(self, *given, **named)
        self.coins.append(drawn)
        return drawn

    return draw


for _method in METHODS:
    setattr(Recorder, _method, _recorded(_method))


@dataclass
class _Noted:
    """A step that notes its drafts in each call, for the row `row`."""

    step: Any
    drafts: list[str] = field(default_factory=list)

    def __call__(self, contexts: Any, rng: Any) -> Any:
        emitted = self.step(contexts, rng)
        if hasattr(self.step, "drafts"):
            rows = len(contexts) if isinstance(contexts, np.ndarray) else 1
            self.drafts += [str(self.step.drafts(row)) for row in range(rows)]
        return emitted


@dataclass(frozen=True)
class _Run:
    """One run: what it emitted, and for a batch, which row of it and what the first rows emitted."""

    emitted: Context
    drafts: str
    row: int | None = None
    rows: tuple[Context, ...] = ()


def example_run(trial: Trial, batches: BatchRuns | None, wanted: Context, seed: int, *, rows: bool) -> tuple[str, ...]:
    """Lines about a run in the context of `trial` whose tokens begin with `wanted`, or are impossible; () if none.

    A batch is run for one cycle only. With `rows`, what its first rows emitted is shown too.
    """
    end = time.monotonic() + MOST_SECONDS
    for number in range(MOST_RUNS):
        rng = Recorder(seed, number)
        with suppress(BrokenStepError):
            run = _single(trial, rng, wanted) if batches is None else _batch(trial, batches, rng, wanted)
            if run:
                return _lines(trial, run, rng, rows=rows)
        if time.monotonic() > end:
            break
    return ()


def _single(trial: Trial, rng: Recorder, wanted: Context) -> _Run | None:
    step = _Noted(trial.play.step)
    again = copy(trial)
    again.play, again.never = replace(trial.play, step=step), ()
    try:
        emitted = again.text(rng)
    except NeverEmittedError:
        return _Run(again.never, ", then ".join(step.drafts))
    return _Run(emitted, ", then ".join(step.drafts)) if _agree(emitted, wanted) else None


def _batch(trial: Trial, batches: BatchRuns, rng: Recorder, wanted: Context) -> _Run | None:
    step, trials = _Noted(trial.play.step), [copy(one) for one in batches.trials]
    for one in trials:
        one.cycles, one.never = 1, ()
    again = BatchRuns(replace(trial.play, step=step), trials, np.random.default_rng(0))
    here = batches.trials.index(trial)
    order = np.arange(trial.play.batch or 1) % len(trials)
    row = None
    try:
        again.call(order, rng)
    except NeverEmittedError:
        row = again.refused
    texts = [tuple(t for t in found if t >= 0) for found in again.texts.tolist()]
    if row is None:
        row = next((r for r, emitted in enumerate(texts) if order[r] == here and _agree(emitted, wanted)), None)
    else:
        texts[row] = trials[order[row]].never
    if row is None:
        return None
    return _Run(texts[row], step.drafts[row] if step.drafts else "", row, tuple(texts[:4]))


def _agree(emitted: Context, wanted: Context) -> bool:
    return all(a == b for a, b in zip(emitted, wanted, strict=False))


def _lines(trial: Trial, run: _Run, rng: Recorder, *, rows: bool) -> tuple[str, ...]:
    where = f"in row {run.row} of {trial.play.batch} " if run.row is not None else ""
    coins = f"random numbers {_coins(rng.coins, run.row)}" if rng.coins else "no random numbers from rng"
    beside = f"; the first rows emitted {' '.join(map(text, run.rows))}" if rows else ""
    shown = ShownRun(f"{where}emitted {text(run.emitted)}{beside}", coins, run.drafts, _target(trial, run.emitted))
    return tuple(line if len(line) <= LONGEST else f"{line[: LONGEST - 4]} ..." for line in shown.lines())


def _target(trial: Trial, emitted: Context) -> str:
    """The target's distribution of each emitted token, up to one that does not exist."""
    found, code = [], 0
    for distributions, token in zip(trial.joint.given, emitted, strict=False):
        found.append(f"({', '.join(f'{x:.3g}' for x in distributions[code])})")
        if not 0 <= token < trial.vocab_size:
            break
        code = code * trial.vocab_size + token
    return ", then ".join(found)


def _coins(coins: list[Any], row: int | None) -> str:
    """The random numbers of a run; of arrays with one entry for each row of a batch, those of the row."""
    found = []
    for coin in coins:
        numbers = np.asarray(coin)
        if row is not None and numbers.ndim and len(numbers) > row:
            numbers = numbers[row]
        found += [f"{number:.4g}" for number in numbers.ravel()[:6].tolist()]
    return " ".join(found)
