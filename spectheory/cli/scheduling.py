"""`spectheory plan --gpu`: what to verify at each batch size of a deployment that was not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spectheory.acceptance import Acceptance
from spectheory.cli.exporting import engine_exports, lines_of
from spectheory.cli.output import console, errors, progress, show
from spectheory.latency import Latency
from spectheory.records import write_whole
from spectheory.schedule import schedule
from spectheory.search import yield_table
from spectheory.search.envelope import Envelopes
from spectheory.yields import reach

DEFAULT_CONTEXT = 1024


@dataclass(frozen=True)
class Deployment:
    """Models on a GPU, the context of each sequence, the batch sizes to plan for, the engines to plan for."""

    gpu: str
    target: str | None
    draft: str | None
    gpus: int
    context: int
    batches: Sequence[int]
    engines: str | None = None

    def latency(self, batch: int) -> Latency:
        """Computed seconds of a forward for `batch` sequences."""
        if self.target is None or self.draft is None:
            raise ValueError("--gpu needs --target and --draft, each a known model or the path of a config.json")
        return Latency.roofline(
            gpu=self.gpu, target=self.target, draft=self.draft, gpus=self.gpus, batch=batch, context=self.context
        )


def batches_of(text: str) -> Sequence[int]:
    """`1:256` as all of them, `1,8,64` as those."""
    try:
        if ":" in text:
            first, last = map(int, text.split(":"))
            return range(first, last + 1)
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--batch must be like 1:256 or 1,8,64, got {text!r}") from None


def show_schedule(
    rates: Acceptance, place: Deployment, limits: dict[str, Any], out: Path | None, report: Path | None, as_json: bool
) -> None:
    """Plan every batch size; print the table and the first tree, or JSON; write the record and the page."""
    from spectheory.report.schedule import budget_figure, schedule_page, schedule_rows
    from spectheory.report.terminal import text_table, tree_drawing

    with progress("batch sizes"):
        planned = schedule(rates, place.latency, place.batches, context=place.context, **limits)
    most = limits["max_budget"]
    envelopes = Envelopes(rates, max_budget=most)
    fastest = [envelopes.fastest(place.latency(first), place.context) for first, _, _ in planned.ranges()]
    engines = place.engines.split(",") if place.engines else []
    first = place.latency(int(planned.batches[0]))
    exports = list(
        engine_exports(engines, planned, lambda most: envelopes.fastest(first, place.context, most), place.draft or "")
    )
    if report is not None:
        curves = (_yields(rates, most, None), _yields(rates, most, 1), envelopes.yields())
        title = f"{place.target} with {place.draft} on {place.gpus} x {place.gpu}"
        page = schedule_page(title, planned, fastest, budget_figure(*curves), ["Computed by a roofline, not measured."])
        write_whole(report, page)
    tree = planned.ranges()[0][2]
    drawing = [tree_drawing(tree, reach(tree, rates))] if tree.budget else []
    show(planned, text_table(schedule_rows(planned, fastest)), *drawing, as_json=as_json, out=out)
    for name, export in exports:
        for line in lines_of(name, export, out.parent if out else Path()):
            (errors if as_json else console).print(line, markup=False, highlight=False, soft_wrap=True)
    if report is not None and not as_json:
        console.print(f"wrote {report}", highlight=False)


def _yields(rates: Acceptance, budget: int, fanout: int | None) -> np.ndarray:
    return yield_table(rates, budget, max_depth=budget, max_fanout=fanout)[-1]
