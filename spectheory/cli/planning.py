"""The commands `plan` and `schedule`. They need no model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from spectheory import engines
from spectheory.cli.options import Explain, Force, GpuName, Gpus, Json, Reads, TargetModel, names_of, numbers, tree_in
from spectheory.cli.output import errors, loaded, progress, require_free, show
from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.files import is_there
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.engines import Export
from spectheory.engines.published import published_rates, stated_rates
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.latency import Latency
from spectheory.hardware.models import lookup_named
from spectheory.planning.candidates import MAX_BUDGET
from spectheory.planning.deployment import DEFAULT_CONTEXT, Deployment
from spectheory.planning.planner import evaluate
from spectheory.planning.planner import plan as search
from spectheory.planning.schedule_record import Schedule
from spectheory.replay import Replays

ENGINES = ", ".join(engine.name for engine in engines.ALL if engine.exporter)
"""The names of the engines to which this package can export plans."""
MOST_NOTES = 1
"""Maximum number of notes on the settings of an engine without --explain."""


def rates_of(source: Path) -> Acceptance:
    """The acceptance rates in a file or on standard input, of a published head, or listed in `source` by depth."""
    listed = re.fullmatch(r"[\d.]+(,[\d.]+)*", str(source)) is not None and not is_there(source)
    if str(source).startswith("tau="):
        return stated_rates(str(source))
    if not listed:
        published = ":" in str(source) and not is_there(source)
        return published_rates(str(source)) if published else loaded(Acceptance, source)
    rates = Acceptance.by_depth_and_rank([[rate] for rate in numbers("--acceptance", str(source), float)])
    stamp = Provenance("the command line").assuming("ranks beyond 0 are taken as 0")
    return replace(rates, provenance=stamp)


def texts_of(folder: Path) -> Replays:
    """The texts of a trace."""
    from reference.tracing import replays

    return replays(folder)


RatesFile = Annotated[
    Acceptance,
    Reads(rates_of),
    typer.Option(
        "--acceptance",
        help="Acceptance record, from `trace` or `import` (- reads standard input); or rates by depth: 0.8,0.7,0.6; or "
        "those of a published head: eagle3:llama-3.1-8b (`spectheory list rates`); or tau of a chain of 3: tau=2.7@3.",
    ),
]
TraceFolder = Annotated[
    Replays | None,
    Reads(texts_of),
    typer.Option(
        "--trace", help="Folder of a trace: tree and verifier are then chosen together, by replaying them on its texts."
    ),
]
MaxBudget = Annotated[int, typer.Option("--max-budget", min=1, help="Maximum number of drafted tokens per tree.")]
MaxDepth = Annotated[
    int | None, typer.Option("--max-depth", min=1, help="Maximum depth of a draft tree.", show_default="no limit")
]


@dataclass(frozen=True)
class PlanOutput:
    """Options for what is written and printed of a plan."""

    engine: Annotated[
        str | None,
        typer.Option(
            help=f"Engines to write settings for, comma-separated: {ENGINES}; for a version ENGINE@VERSION. Computed "
            "times have the costs of the first engine.",
            show_default="no settings",
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option(help="File for the result. Files for engines are written to its folder.")
    ] = None
    report: Annotated[Path | None, typer.Option(help="File for a report as an HTML page.")] = None
    explain: Explain = False
    force: Force = False
    as_json: Json = False

    def check(self, read: Iterable[Path]) -> None:
        """Check the names of the engines, like `vllm` or `vllm@0.31`, and that the files can be written."""
        for name in names_of(self.engine):
            try:
                engines.release_of(name)
            except InputError as error:
                raise InputError(f"--engine: {name}: {error}") from None
        require_free(read, self.out, self.report, force=self.force)

    def write(self, planned: Schedule, read: Iterable[Path]) -> None:
        """Write the record, the page and the settings of the engines; print the answer.

        Raises:
            typer.Exit: with status 2, an engine cannot run the plan.
        """
        from spectheory.report.answer import explained, screen
        from spectheory.report.schedules import schedule_page

        taken: list[Export] = []
        refused: list[str] = []
        for name in names_of(self.engine):
            engine, _, version = name.partition("@")
            try:
                taken.append(engines.export(planned, engine, version=version or None))
            except InputError as error:
                refused.append(f"error: {name}: {error}")
        settings = self._written(taken, read)
        for lines in (refused, settings if self.as_json else []):
            errors.print("\n".join(lines), end="\n" if lines else "", markup=False, highlight=False, soft_wrap=True)
        pages = {self.report: schedule_page(planned, settings)} if self.report else {}
        answer = [*screen(planned, settings, full=self.explain), *(explained(planned) if self.explain else [])]
        show(planned, *answer, as_json=self.as_json, out=self.out, pages=pages)
        if refused:
            raise typer.Exit(2)

    def _written(self, taken: Sequence[Export], read: Iterable[Path]) -> list[str]:
        """Write the files of the engines, and return the lines of their settings."""
        folder = self.out.parent if self.out else Path()
        files = {(folder / file, text) for export in taken for file, text in export.files.items()}
        changed = [path for path, text in files if not (path.is_file() and path.read_bytes() == text.encode())]
        try:
            require_free([*read, self.report, self.out], *changed, force=self.force)
        except InputError as error:
            raise InputError(f"{error}, or name a folder for it: --out FOLDER/schedule.json") from None
        notes = None if self.explain else MOST_NOTES
        return [line for one in taken for line in one.lines(one.write(folder, overwrite=True), notes=notes)]


PLAN_OUTPUT = PlanOutput()


def plan(
    acceptance: RatesFile,
    latency: Annotated[Latency, Reads(Latency.load), typer.Option(help="Latency record, from `spectheory profile`.")],
    tree: Annotated[
        Tree | None,
        Reads(tree_in),
        typer.Option(
            help="Predict the speed of this tree and skip the search. Takes a plan file, or a JSON file with a parent "
            "array such as [-1, 0, 0]."
        ),
    ] = None,
    trace: TraceFolder = None,
    max_budget: MaxBudget = MAX_BUDGET,
    max_depth: MaxDepth = None,
    context: Annotated[
        int | None,
        typer.Option(help="Number of tokens in the KV cache.", show_default="middle of the measured contexts"),
    ] = None,
    smooth: Annotated[
        bool, typer.Option("--smooth", help="Smooth the records: no rate rises with rank, no time falls with tokens.")
    ] = False,
    output: PlanOutput = PLAN_OUTPUT,
) -> Schedule:
    """Choose what decodes fastest on the measured machine: a draft tree, a draft chain, or no speculation.

    For a GPU that you have not measured, or for other batch sizes, use `spectheory schedule`.
    """
    if smooth:
        acceptance, latency = acceptance.smoothed(), latency.smoothed()
    if tree is not None:
        return evaluate(tree, acceptance, latency, context=context, replays=trace)
    with progress("trees") as tell:
        limits = {"max_budget": max_budget, "max_depth": max_depth, "context": context}
        return search(acceptance, latency, replays=trace, progress=tell, **limits)


def schedule(
    acceptance: RatesFile,
    gpu: GpuName,
    target: TargetModel,
    draft: Annotated[
        str,
        typer.Option(
            help="Draft, like --target; or its kind: eagle1, eagle3, mtp (of the target), medusa, p-eagle, dflash, "
            "dspark; or ngram, suffix."
        ),
    ],
    gpus: Gpus = Deployment.gpus,
    batch: Annotated[
        str | None,
        typer.Option(
            metavar="N:M",
            help="Batch sizes: 1:256 for every size from 1 to 256, or a list such as 1,8,64.",
            show_default="1",
        ),
    ] = None,
    costs: Annotated[
        CalibratedCosts | None,
        Reads(CalibratedCosts.load),
        typer.Option(
            help="Calibrated costs of the engine, from `spectheory calibrate`, for computed times.",
            show_default="costs in the package",
        ),
    ] = None,
    trace: TraceFolder = None,
    drafted_share: Annotated[
        float | None,
        typer.Option(
            help="For n-grams: the share of steps in which one matches, to which the rates belong.",
            show_default="as counted in the record; otherwise the rates are of all steps",
        ),
    ] = None,
    max_budget: MaxBudget = MAX_BUDGET,
    max_depth: MaxDepth = None,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="N[:M]",
            help="Number of tokens in the KV cache of each sequence; a range, 1k:128k, is planned at each doubling.",
            show_default=f"mean by the lengths, otherwise {DEFAULT_CONTEXT}",
        ),
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(
            metavar="PROMPT,ANSWER",
            help="Mean numbers of tokens of a prompt and of an answer, such as 512,256: steps then read prompts too.",
        ),
    ] = None,
    output: PlanOutput = PLAN_OUTPUT,
) -> Schedule:
    """Choose what decodes fastest at each batch size on a GPU: a draft tree, a draft chain, or no speculation."""
    sizes: dict[str, Any] = {} if batch is None else {"batches": batches_of(batch)}
    contexts = [] if context is None else contexts_of(context)
    if len(contexts) > 1:
        sizes["contexts"] = contexts
    if drafted_share is not None:
        if lookup_named(draft) is None:
            raise InputError(f"--drafted-share is for ngram and suffix, got --draft {draft}: leave it out")
        acceptance = replace(acceptance, drafted_share=drafted_share)
    pair = [None, None] if lengths is None else numbers("--lengths", lengths, float)
    if len(pair) != 2:
        raise InputError(f"--lengths must be PROMPT,ANSWER, such as 512,256, got {lengths!r:.80}")
    only = contexts[0] if len(contexts) == 1 else None
    engine = next(iter(names_of(output.engine)), None)
    place = Deployment(
        gpu, target, draft, gpus, only, engine=engine, prompt_tokens=pair[0], output_tokens=pair[1], costs=costs
    )
    with progress("trees") as tell:
        limits = {"max_budget": max_budget, "max_depth": max_depth, "replays": trace}
        return place.schedule(acceptance, **sizes, **limits, progress=tell)


def batches_of(text: str) -> Sequence[int]:
    """The batch sizes in `text`: `1:256` is every size from 1 to 256, `1,8,64` is a list."""
    if not re.fullmatch(r"\d{1,9}(:\d{1,9}|(,\d{1,9})*)", text):
        raise InputError(f"--batch must name sizes like 1:256 or 1,8,64, got {text!r:.80}")
    ends = [int(part) for part in re.split("[:,]", text)]
    return range(ends[0], ends[1] + 1) if ":" in text else ends


def contexts_of(text: str) -> Sequence[int]:
    """The contexts in `text`, where k is 1,024: `4k` is one, `1k:128k` is each doubling of the first up to the last."""
    if not re.fullmatch(r"\d{1,9}k?(:\d{1,9}k?)?", text):
        raise InputError(f"--context must be a number of tokens like 4096 or a range like 1k:128k, got {text!r:.80}")
    first, *last = [int(part.rstrip("k")) * 1024 ** part.endswith("k") for part in text.split(":")]
    between = [first << at for at in range(1, 31) if last and first << at < last[0]]
    return [first, *between, *last]
