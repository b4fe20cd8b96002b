"""The command that lays predictions beside measurements: of one plan, or of the whole matrix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.measuring import load, long_enough, prompts_of, refuse_all_but
from spectheory.cli.output import (
    AttentionKind,
    Count,
    Device,
    DraftFolder,
    Dtype,
    Json,
    NewTokens,
    PromptFile,
    PromptTokens,
    Seed,
    TargetFolder,
    console,
    progress,
)
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.planning.planner import Plan
from spectheory.results.calibration import Calibration
from spectheory.results.tally import Tally

ONLY = "With --out: decode combinations whose name contains this; the report has those in the folder as well."
OPTIONS = {"simulate.run": "simulated", "spectheory decode": "measured"}
"""Which option takes the tallies of each source; those of others may be either."""


def compare(
    context: typer.Context,
    plan: Annotated[Path | None, typer.Option("--plan", help="The plan that predicted.")] = None,
    simulated: Annotated[Path | None, typer.Option(help="With --plan: tally of `spectheory simulate`.")] = None,
    measured: Annotated[Path | None, typer.Option(help="With --plan: tally of `spectheory decode`.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="In place of --plan: folder for the matrix; an interrupted one is continued."),
    ] = None,
    temperatures: Annotated[str, typer.Option(help="With --out: comma-separated, 0 is greedy decoding.")] = "0,0.6,1",
    only: Annotated[str, typer.Option(help=ONLY)] = "",
    target: TargetFolder = None,
    draft: DraftFolder = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    attention: AttentionKind = "sdpa",
    prompts: PromptFile = None,
    skip: Annotated[int, typer.Option(min=1, help="Prompts that are traced for the rates; the next are decoded.")] = 40,
    count: Count = 16,
    prompt_tokens: PromptTokens = 64,
    new_tokens: NewTokens = 64,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Lay predictions beside measurements: those of a plan, or of every policy, verifier and temperature on a pair."""
    if (plan is None) == (out is None):
        raise InputError("give either --plan, to lay its records side by side, or --out, to measure every policy")
    if plan is not None:
        refuse_all_but(("plan", "simulated", "measured", "as_json"), context, "--plan, which measures nothing")
        _lay(plan, simulated, measured, as_json)
        return
    if simulated is not None or measured is not None:
        raise InputError("--simulated and --measured only with --plan: with --out everything is measured here")
    assert out is not None
    degrees = _numbers(temperatures)
    from reference.matrix import Matrix, MatrixSettings, Texts
    from reference.measuring import require_cycle
    from reference.predictions import LEAST_TRIALS
    from reference.prompts import training_texts

    require_cycle(new_tokens)
    with long_enough(skip * new_tokens, LEAST_TRIALS, "raise --skip or --new-tokens, in a new folder"):
        pair = load(target, draft, device, dtype, attention)
        decoded = prompts_of(pair, prompts, skip, count, prompt_tokens, least_skip=1)
        traced = prompts_of(pair, prompts, 0, skip, prompt_tokens)
        settings = MatrixSettings(str(prompts or "shipped held-out prompts"), new_tokens, seed)
        matrix = Matrix(out, pair, Texts(traced, decoded, training_texts(pair)), settings)
        with progress("trace") as done:
            every = matrix.combinations(sorted({*degrees, *matrix.temperatures}), done)
        offered = [combination for combination in every if combination.sampling.temperature in degrees]
        wanted = {combination.key for combination in offered if only.lower() in combination.name.lower()}
        if not wanted:
            raise InputError(f"no combination's name contains {only!r}: one is called {offered[0].name!r}")
        with progress("compare") as done:
            found = matrix.run([one for one in every if one.key in wanted or matrix.file(one).exists()], done)
    _show(found, out, as_json)


def _lay(plan: Path, simulated: Path | None, measured: Path | None, as_json: bool) -> None:
    """Theory, simulation and measurement of one plan."""
    from spectheory.report.terminal import comparison_table
    from spectheory.results.comparison import compare as lay

    tallies = [path and _tally(option, path) for option, path in (("simulated", simulated), ("measured", measured))]
    comparison = lay(Plan.load(plan), *tallies)
    if as_json:
        print(json.dumps(comparison.to_dict(), indent=1))
    else:
        console.print(comparison_table(comparison))


def _tally(option: str, path: Path) -> Tally:
    """The tally that `--option path` names. Raises InputError if it belongs to the other option."""
    tally = Tally.load(path)
    source = tally.provenance.source
    if (belongs := OPTIONS.get(source, option)) != option:
        raise InputError(f"--{option} {path} is a {belongs} tally, of {source!r}: give it as --{belongs} {path}")
    return tally


def _numbers(temperatures: str) -> list[float]:
    try:
        return sorted({float(one) for one in temperatures.split(",")})
    except ValueError:
        raise InputError(f"temperatures must be numbers with commas between them, got {temperatures!r}") from None


def _show(found: Calibration, out: Path, as_json: bool) -> None:
    from spectheory.report.calibration import calibration_figure, calibration_page
    from spectheory.report.matrix import calibration_rows, calibration_words
    from spectheory.report.terminal import text_table

    write_whole(out / "calibration.svg", calibration_figure(found))
    write_whole(out / "index.html", calibration_page("Predicted against measured", found))
    if as_json:
        print(json.dumps(found.to_dict(), indent=1))
        return
    for table in calibration_rows(found):
        console.print(text_table(table))
    console.print("\n".join(calibration_words(found)))
    print(f"wrote {out / 'matrix.parquet'}, {out / 'calibration.svg'} and {out / 'index.html'}")
