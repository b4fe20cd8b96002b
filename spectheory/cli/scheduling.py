"""`spectheory plan --gpu`: what to verify at each batch size of a deployment that was not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from spectheory.acceptance import Acceptance
from spectheory.cli.exporting import Exports
from spectheory.cli.offer import Offer
from spectheory.cli.output import console, progress, show
from spectheory.latency import Latency
from spectheory.measured import exists, find
from spectheory.models import model, model_names, require_pair
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
    engines: Sequence[str] = ()
    measured: Path | None = None
    smooth: bool = False

    def latency(self, batch: int) -> Latency:
        """Seconds of a forward for `batch` sequences: measured where a record has them, else computed."""
        names = self._names
        if self.gpus == 1 and exists(self.gpu, *names, batch, self.measured):
            record = Latency.measured(gpu=self.gpu, target=names[0], draft=names[1], batch=batch, folder=self.measured)
            if record.covers(self.context):
                return record.smoothed() if self.smooth else record
        return Latency.roofline(
            gpu=self.gpu, target=names[0], draft=names[1], gpus=self.gpus, batch=batch, context=self.context
        )

    def require_pair(self) -> None:
        """Check that the draft fits the target, as far as their configs say. Raises ValueError if not."""
        target, draft = self._names
        if self.measured is None or {target, draft} <= set(model_names()):
            require_pair(model(target), model(draft), self.context)

    def require_measured(self) -> None:
        """Check that a folder of records that was named has one for a batch size. Raises ValueError if not."""
        if self.measured is None:
            return
        if self.gpus > 1:
            raise ValueError(f"--measured is for one GPU, got --gpus {self.gpus}: leave one of them out")
        there = [batch for batch in self.batches if exists(self.gpu, *self._names, batch, self.measured)]
        if not there:
            find(self.gpu, *self._names, self.batches[0], self.measured)
        if all(self.latency(batch).is_computed for batch in there):
            raise ValueError(
                f"--context {self.context:,} is outside the contexts that {self.measured} was measured at: "
                "give one of these, or leave out --measured"
            )

    @property
    def _names(self) -> tuple[str, str]:
        if self.target is None or self.draft is None:
            raise ValueError("--gpu needs --target and --draft, each a known model or the path of a config.json")
        target, draft = (name.lower() if name.lower() in model_names() else name for name in (self.target, self.draft))
        return target, draft


def batches_of(text: str) -> Sequence[int]:
    """`1:256` as all of them, `1,8,64` as those."""
    try:
        if ":" in text:
            first, last = map(int, text.split(":"))
            return range(first, last + 1)
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--batch must be like 1:256 or 1,8,64, got {text!r}") from None


def envelopes_of(rates: Acceptance, limits: Mapping[str, int | None]) -> Envelopes:
    """All envelopes within the limits of a plan."""
    names = {"max_budget": "max_budget", "max_levels": "max_depth", "max_branching": "max_fanout"}
    most = {name: limits[limit] for name, limit in names.items()}
    return Envelopes(rates, **{name: value for name, value in most.items() if value is not None})


def longest_of(limits: Mapping[str, Any]) -> int:
    """The longest chain within the limits of a plan."""
    return min(limits["max_budget"], limits["max_depth"] or limits["max_budget"])


def show_schedule(
    rates: Acceptance,
    place: Deployment,
    limits: dict[str, Any],
    read: Sequence[str | Path],
    out: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Plan every batch size; print the table and the first tree, or JSON; write the record and the page."""
    from spectheory.report.schedule import budget_figure, named_ranges, schedule_page, schedule_rows
    from spectheory.report.terminal import text_table, tree_drawing

    place.require_pair()
    place.require_measured()
    with progress("trees") as tell:
        planned = schedule(rates, place.latency, place.batches, context=place.context, progress=tell, **limits)
    envelopes = envelopes_of(rates, limits)
    fastest = [
        envelopes.fastest(place.latency(first), place.context) if tree.budget else None
        for first, _, tree in planned.ranges()
    ]
    offer = Offer(planned, envelopes, place.latency, longest_of(limits), place.draft or "")
    exports = Exports.of(offer, place.engines)
    if report is not None:
        curves = (_yields(rates, limits), _yields(rates, limits | {"max_fanout": 1}), envelopes.yields())
        title = f"{place.target} with {place.draft} on {place.gpus} x {place.gpu}"
        page = schedule_page(title, planned, fastest, budget_figure(*curves))
        write_whole(report, page)
    (batches, tree), *_ = named_ranges(planned)
    drawing = [Text(f"at batch {batches}:"), tree_drawing(tree, reach(tree, rates))] if tree.budget else []
    notes = [Text(f"assumed: {sentence}") for sentence in planned.assumed]
    show(planned, text_table(schedule_rows(planned, fastest)), *notes, *drawing, as_json=as_json, out=out)
    if report is not None and not as_json:
        console.print(f"wrote {report}", highlight=False)
    exports.write(out.parent if out else Path(), read, aside=as_json)


def _yields(rates: Acceptance, limits: dict[str, Any]) -> np.ndarray:
    budget, depth, fanout = limits["max_budget"], limits["max_depth"], limits["max_fanout"]
    return yield_table(rates, budget, max_depth=depth or budget, max_fanout=fanout)[-1]
