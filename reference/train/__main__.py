"""Train the shipped target, and draft heads on a target's own texts: `python -m reference.train`.

Every command continues after an interruption, also after `kill -9`, if it is repeated.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from reference.heads import Kind
from reference.losses import ALL, loss_of
from reference.models import TARGET, load_pair
from reference.prompts import load_prompts, training_texts
from reference.tracing import TraceSettings, record_trace
from reference.train.head import NEW_RATE, STARTED_RATE, HeadRecipe, head_config, train_head
from reference.train.own_texts import OwnTexts, corpus_pieces
from reference.train.target import Recipe, build_target
from spectheory.cli.output import progress
from spectheory.core.errors import InputError

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
Out = Annotated[Path, typer.Option(help="Folder to write.")]
Target = Annotated[Path, typer.Option(help="Folder of the target; by default the shipped one.")]
LOSSES = ", ".join(loss.name for loss in ALL)


@app.command()
def target(out: Out, work: Annotated[Path, typer.Option(help="Folder for checkpoints.")]) -> None:
    """Train the shipped target from scratch on the standard library's source: an hour on two cores."""
    with progress("steps") as done:
        build_target(out, work, Recipe(), done)


@app.command()
def texts(
    out: Out,
    target: Target = TARGET,
    device: str = "cpu",
    corpus: Annotated[Path | None, typer.Option(help="JSON Lines with a field 'text', from which prompts are cut; "
        "default: the files that the shipped pair was trained on.")] = None,
    rows: Annotated[int, typer.Option(help="Number of texts.")] = 10_240,
    prompt_tokens: int = 64,
    new_tokens: Annotated[int, typer.Option(help="Tokens that the target generates after each prompt.")] = 192,
    temperature: float = 1.0,
    seed: int = 0,
) -> None:  # fmt: skip
    """Let the target continue prompts: a trace of texts, on which heads are trained."""
    settings = TraceSettings("pieces of a corpus", temperature, 1, new_tokens, batch=64, seed=seed)
    loaded = load_pair(target, None, device=device)
    if corpus is None:
        pieces = training_texts(loaded)
    else:
        pieces = loaded.tokenizer(load_prompts(corpus), add_special_tokens=False)["input_ids"]
    with progress("tokens") as done:
        record_trace(loaded, corpus_pieces(pieces, rows, prompt_tokens, seed), settings, out, done)  # type: ignore[arg-type]


@app.command()
def head(
    out: Out,
    loss: Annotated[str, typer.Option(help=f"One of {LOSSES}.")],
    texts: Annotated[list[Path], typer.Option(help="Folder of the target's own texts; may be given several times.")],
    target: Target = TARGET,
    device: str = "cpu",
    setting: Annotated[list[str], typer.Option("--set", help="Setting of the loss, such as passes=3.")] = [],  # noqa: B006
    kind: Annotated[Kind | None, typer.Option(help="Kind of a new head; default: as the loss was made for.")] = None,
    start: Annotated[Path | None, typer.Option(help="Folder of a head that is trained on; gto needs it.")] = None,
    intermediate: Annotated[int, typer.Option(help="Width of a new head's MLP.")] = 512,
    vocabulary: Annotated[int | None, typer.Option(help="Draft vocabulary of a new EAGLE-3 head.")] = None,
    steps: Annotated[int, typer.Option(help="Updates of the weights.")] = 1200,
    rows: Annotated[int, typer.Option(help="Texts in each step.")] = 16,
    rate: Annotated[float | None, typer.Option(help="Learning rate; default: 0.02, or 0.003 with --start.")] = None,
    seed: int = 0,
) -> None:
    """Train a draft head for a target by one of the papers' losses, and write it in half precision."""
    chosen, loaded, config = loss_of(loss, setting), load_pair(target, start, device=device), None
    rate = rate or (NEW_RATE if start is None else STARTED_RATE)
    if start is None:
        sizes = {"intermediate_size": intermediate, "draft_vocab_size": vocabulary}
        config = head_config(loaded.target, kind or chosen.head, **sizes, name=loaded.names[0])
    with progress("steps") as done:
        train_head(loaded, OwnTexts(*texts), out, HeadRecipe(chosen, steps, rows, seed, rate), config, done)


if __name__ == "__main__":
    try:
        app()
    except InputError as error:
        sys.exit(f"error: {error}")
