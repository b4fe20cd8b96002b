"""`spectheory plan --gpu`: what to verify at each batch size of a deployment that was not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from spectheory.cli.exporting import Exports
from spectheory.cli.output import console, progress
from spectheory.cli.writing import Writing
from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.hardware.gpus import gpu as gpu_of
from spectheory.hardware.hf_config import LARGEST
from spectheory.hardware.latency import Latency
from spectheory.hardware.library import MEASURE, exists, known_in
from spectheory.hardware.models import ModelConfig, model, model_names, require_pair, shipped_name
from spectheory.planning.fitting import Fitting
from spectheory.planning.scheduler import MOST_BATCHES, schedule, span
from spectheory.search import yield_table
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
        """Check that the draft fits the target, as far as their configs say. Raises InputError if not."""
        target, draft = self._names
        if self.measured is None or {target, draft} <= set(model_names()):
            require_pair(model(target), model(draft), self.context)

    def require_measured(self) -> None:
        """Check that a folder of records that was named has one for a batch size. Raises InputError if not."""
        if self.measured is None:
            return
        if self.gpus > 1:
            raise InputError(f"--measured is for one GPU, got --gpus {self.gpus}: leave one of them out")
        there = [batch for batch in self.batches if exists(self.gpu, *self._names, batch, self.measured)]
        if not there:
            raise InputError(
                f"--measured {self.measured} has no record for --gpu {self.gpu} --target {self._names[0]} --draft "
                f"{self._names[1]} at --batch {span(self.batches[0], self.batches[-1])}, it has "
                f"{known_in(self.measured)}: leave it out to compute times, or {MEASURE}"
            )
        used = [batch for batch in there if not self.latency(batch).computed]
        if not used:
            raise InputError(
                f"--context {self.context:,} is outside the contexts that {self.measured} was measured at: "
                "give one of these, or leave out --measured"
            )
        self._require_computable(used)

    def require_batches(self) -> None:
        """Check that all batch sizes can be planned: that the last fits, before the others are listed."""
        if len(self.batches) > MOST_BATCHES:
            self.latency(self.batches[-1])
            raise InputError(
                f"--batch must name at most {MOST_BATCHES:,} sizes, got {len(self.batches):,}: list those that you "
                "need, like 1,2,4,8"
            )
        self.require_measured()
        self.latency(self.batches[-1])

    def target_config(self) -> ModelConfig | None:
        """The target by its config; None where there is a measurement of it alone."""
        try:
            return model(self._names[0])
        except ValueError:
            return None

    def _require_computable(self, used: Sequence[int]) -> None:
        """Check that a roofline can be had where some batch size has no record but those `used`."""
        missing = set(self.batches) - set(used)
        if not missing:
            return
        try:
            gpu_of(self.gpu)
            for name in self._names:
                model(name)
        except ValueError as error:
            raise InputError(
                f"no record for batch {min(missing)}, and its times cannot be computed ({str(error).split(':')[0]}): "
                f"plan --batch {','.join(map(str, used))}"
            ) from None

    @property
    def _names(self) -> tuple[str, str]:
        if self.target is None or self.draft is None:
            raise InputError(
                "--gpu needs --target and --draft, each a known model, or the path of a config.json or of its folder"
            )
        return shipped_name(self.target) or self.target, shipped_name(self.draft) or self.draft


def batches_of(text: str) -> Sequence[int]:
    """`1:256` as all of them, `1,8,64` as those."""
    try:
        ends = [int(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError:
        ends = []
    if not ends or (":" in text and len(ends) != 2):
        raise InputError(f"--batch must be like 1:256 or 1,8,64, got {text!r:.80}")
    rises = all(a < b for a, b in pairwise(ends)) or (":" in text and ends[0] == ends[1])
    if not rises or ends[0] < 1 or ends[-1] > LARGEST:
        raise InputError(f"--batch must rise, from 1 on and up to {LARGEST:,}, like 1:256 or 1,8,64, got {text!r:.80}")
    return range(ends[0], ends[1] + 1) if ":" in text else ends


def show_schedule(
    rates: Acceptance,
    place: Deployment,
    limits: dict[str, Any],
    written: Writing,
) -> None:
    """Plan every batch size; print the table and the first tree, or JSON; write the record and the page."""
    from spectheory.report.schedule import budget_figure, named_ranges, schedule_page, schedule_rows
    from spectheory.report.terminal import text_table, tree_drawing

    place.require_batches()
    place.require_pair()
    with progress("trees") as tell:
        planned = schedule(rates, place.latency, place.batches, context=place.context, progress=tell, **limits)
    fitting = Fitting(planned, place.draft or "", place.target_config())
    envelopes = fitting.envelopes
    fastest = [
        envelopes.fastest(place.latency(first), place.context) if tree.budget else None
        for first, _, tree, _ in planned.answers()
    ]
    exports = Exports.of(fitting, place.engines)
    written.require_free(exports)
    if written.page.path is not None:
        curves = (_yields(rates, limits), _yields(rates, limits | {"max_fanout": 1}), envelopes.yields())
        title = f"{place.target} with {place.draft} on {place.gpus} x {place.gpu}"
        page = schedule_page(title, planned, fastest, budget_figure(*curves))
        write_whole(written.page.path, page)
    (batches, tree), *_ = named_ranges(planned)
    drawing = [Text(f"at batch {batches}:"), tree_drawing(tree, reach(tree, rates))] if tree.budget else []
    notes = [Text(f"assumed: {sentence}") for sentence in planned.provenance.assumptions]
    written.show(planned, text_table(schedule_rows(planned, fastest)), *notes, *drawing)
    if written.page.path is not None and not written.as_json:
        console.print(f"wrote {written.page.path}", highlight=False)
    written.show_exports(exports)


def _yields(rates: Acceptance, limits: dict[str, Any]) -> np.ndarray:
    budget, depth, fanout = limits["max_budget"], limits["max_depth"], limits["max_fanout"]
    return yield_table(rates, budget, max_depth=depth or budget, max_fanout=fanout)[-1]
