"""The command `matrix`: measured and predicted tau of every policy and verifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.measuring import TopK, TopP, long_enough
from spectheory.cli.options import SHIPPED, Count, Json, PairOptions, PromptOptions, Seed, numbers
from spectheory.cli.output import console, progress, require_free
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole

ONLY = (
    "Decode only the combinations of policy and verifier whose name contains this text. The report also shows the "
    "combinations that are already in the folder."
)
SHORTER = PromptOptions(new_tokens=64)


def matrix(
    out: Annotated[
        Path, typer.Option(help="Folder for the results. To continue an interrupted run, repeat the command.")
    ],
    temperatures: Annotated[str, typer.Option(help="Temperatures, comma-separated; 0 is greedy decoding.")] = "0,0.6,1",
    top_k: TopK = None,
    top_p: TopP = 1.0,
    only: Annotated[str, typer.Option(help=ONLY)] = "",
    skip: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of prompts at the start of the file that are traced for acceptance rates. The prompts after "
            "them are decoded.",
        ),
    ] = 40,
    count: Count = 16,
    text: PromptOptions = SHORTER,
    pair: PairOptions = SHIPPED,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure tau for every drafting policy, verifier and temperature, and compare it with two predictions.

    Tau is the number of tokens per target call.
    """
    degrees = numbers("--temperatures", temperatures, float)
    from reference.combinations import possible_names
    from reference.matrix import Matrix, MatrixSettings, Texts
    from reference.measuring import require_cycle
    from reference.predictions import LEAST_TRIALS
    from reference.prompts import training_texts
    from reference.sampling import Sampling, require_drawing
    from spectheory.report.calibration import calibration_figure, calibration_page, calibration_rows, calibration_words

    require_cycle(text.new_tokens)
    settings = MatrixSettings(text.dataset, text.new_tokens, seed, top_k, top_p)
    samplings = [settings.sampling(temperature) for temperature in degrees]
    if not any(degrees):
        require_drawing(Sampling(0, top_k, top_p))
    with long_enough(skip * text.new_tokens, LEAST_TRIALS, "raise --skip or --new-tokens, in a new folder"):
        require_free([], out / "index.html", force=True)
        _require_name(only, [name for sampling in samplings for name in possible_names(sampling)])
        text.read(skip, count, least_skip=1)
        models = pair.load()
        decoded = text.encoded(models, skip, count, least_skip=1)
        traced = text.encoded(models, 0, skip)
        measured = Matrix(out, models, Texts(traced, decoded, training_texts(models)), settings)
        with progress("trace") as done:
            every = measured.combinations(sorted({*degrees, *measured.temperatures}), done)
        offered = [combination for combination in every if combination.sampling.temperature in degrees]
        _require_name(only, [combination.name for combination in offered])
        wanted = {combination.key for combination in offered if only.lower() in combination.name.lower()}
        with progress("matrix") as done:
            found = measured.run([one for one in every if one.key in wanted or measured.file(one).exists()], done)
    figure = calibration_figure(found)
    write_whole(out / "calibration.svg", figure)
    write_whole(out / "index.html", calibration_page("Predicted against measured", found, figure))
    if as_json:
        print(json.dumps(found.to_dict(), indent=1))
        return
    for table in calibration_rows(found):
        console.print(table)
    console.print("\n".join(calibration_words(found)))
    print(f"wrote {out / 'matrix.parquet'}, {out / 'calibration.svg'} and {out / 'index.html'}")


def _require_name(only: str, names: list[str]) -> None:
    """Check that one of the names of combinations contains the value of --only."""
    if not any(only.lower() in name.lower() for name in names):
        raise InputError(f"no combination's name contains --only {only!r:.80}: a valid name is {names[0]!r}")
