"""The commands of `spectheory train`: `pair`, `texts`, `head` and `selector`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spectheory.cli.options import PairOptions, Seed, numbers
from spectheory.cli.output import progress, require_writable
from spectheory.core.checks import is_digits
from spectheory.core.errors import InputError
from spectheory.hardware.latency import Latency

if TYPE_CHECKING:
    from reference.models import Pair

Texts = Annotated[
    Path, typer.Option("--texts", help="Folder of the target's own texts, from `spectheory train texts`.")
]

Target = Annotated[
    Path | None, typer.Option("--target", help="Folder of the target model.", show_default="shipped target")
]
Device = Annotated[str, typer.Option("--device", help="Device, such as cpu or cuda.")]


@contextmanager
def _in_a_checkout() -> Iterator[None]:
    """Context in which training is imported, which is not part of the installed package."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("reference.train"):
            raise
        raise InputError(
            "training is not part of the installed package: run this command in a checkout of the repository"
        ) from error


def pair(
    out: Annotated[Path, typer.Option(help="Folder in which to write the folders of the models.")],
    work: Annotated[
        Path, typer.Option(help="Folder for checkpoints. To continue an interrupted run, repeat the command.")
    ],
) -> None:
    """Train the shipped models from scratch on the source code of Python's standard library: target, draft and head.

    This takes about three hours on two cores.
    """
    with _in_a_checkout():
        from reference.train.pair import build_pair
    for folder in (out, work):
        require_writable(folder / "file")
    build_pair(out, work, stage=progress)


def texts(
    out: Annotated[
        Path, typer.Option(help="Folder for the texts. To continue an interrupted run, repeat the command.")
    ],
    target: Target = None,
    device: Device = "cpu",
    corpus: Annotated[
        Path | None,
        typer.Option(
            help="JSON Lines file of texts with a field 'text'. Pieces of these texts are the prompts that the target "
            "continues; do not include texts that you evaluate on. The default is the files of Python's standard "
            "library that the shipped pair was trained on."
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of texts.")] = 10_240,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Number of tokens in each prompt.")] = 64,
    new_tokens: Annotated[
        int, typer.Option(min=1, help="Number of tokens that the target generates after each prompt.")
    ] = 192,
    temperatures: Annotated[
        str, typer.Option(help="Sampling temperatures, comma-separated; the texts use them in turn.")
    ] = "0,1",
    layers: Annotated[
        str | None,
        typer.Option(
            help="Layers of the target whose inputs are stored in addition to its last hidden state, such as 2,9,15. "
            "The default for n layers is 2, n/2 and n-3."
        ),
    ] = None,
    seed: Seed = 0,
    share: Annotated[
        str,
        typer.Option(
            help="Write only every n-th file, starting with file k, given as k/n. Two processes with 0/2 and 1/2 share "
            "the work."
        ),
    ] = "0/1",
) -> None:
    """Let the target continue prompts, and store its tokens and hidden states, on which heads are trained.

    About 900 tokens a second on a core with the shipped target: 2 million in 40 CPU minutes, 3.4 GB on disk.
    """
    with _in_a_checkout():
        from reference.train.own_texts import WHAT, TextSettings, stored_states, write_own_texts
    from reference.part_files import require_kind
    from reference.prompts import load_prompts, training_texts

    settings = TextSettings(
        rows=rows,
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        temperatures=tuple(numbers("temperatures", temperatures, float)),
        layers=None if layers is None else tuple(numbers("layers", layers, int)),
        seed=seed,
    )
    which, given = _share(share), None if corpus is None else load_prompts(corpus)
    require_writable(out / "file")
    require_kind(out, WHAT)
    loaded = _pair(target, None, device)
    stored_states(loaded.target, settings)
    read = None if given is None else loaded.tokenizer(given, add_special_tokens=False)["input_ids"]
    pieces = training_texts(loaded) if read is None else [list(row) for row in read]  # type: ignore[arg-type]
    with progress("tokens") as done:
        write_own_texts(loaded, pieces, settings, out, done, which)
    print(f"wrote {out}")


def head(
    loss: Annotated[
        str, typer.Option(help="Loss: eagle, hass, eagle3, kl, tv, lk_alpha, lk_lambda, marginal, talf or gto.")
    ],
    texts: Texts,
    out: Annotated[Path, typer.Option(help="Folder of the head. To continue an interrupted run, repeat the command.")],
    target: Target = None,
    device: Device = "cpu",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Setting of the loss, such as passes=3 or token_loss.passes=4. Repeat for each."),
    ] = None,
    kind: Annotated[
        Literal["eagle1", "eagle3", "mtp", "parallel"] | None,
        typer.Option(help="Kind of a new head.", show_default="the kind that the loss was made for"),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a head or draft model whose training is continued; default: a new head. gto needs it."
        ),
    ] = None,
    intermediate: Annotated[int, typer.Option(min=1, help="Width of a new head's MLP.")] = 512,
    vocabulary: Annotated[
        int | None,
        typer.Option(min=1, help="Size of the draft vocabulary of a new EAGLE-3 head; by default the target's."),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Number of updates of the weights.")] = 1200,
    rows: Annotated[int, typer.Option(min=1, help="Number of texts in each step.")] = 16,
    roots: Annotated[
        int, typer.Option(min=1, help="For TALF: number of roots in each text at which trees are built.")
    ] = 64,
    groups: Annotated[int, typer.Option(min=1, help="For GTO: number of groups of roots in each text.")] = 4,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="Shuffle GTO's rewards within each group, as a control.")
    ] = False,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Learning rate of the head's matrices; norms and output layers have a tenth of it.",
            show_default="0.02 for a new head, 0.003 with --start",
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Train a draft head for a target by one of the papers' losses, and write it.

    On one core 1,200 steps of eagle3 with one pass take 8 minutes; each further pass costs the same again. The head is
    written in half precision; `spectheory head convert` writes the layouts of other libraries.
    """
    with _in_a_checkout():
        from reference.train.head import NEW_RATE, STARTED_RATE, HeadRecipe, head_config, train_head
        from reference.train.objectives import DraftTrees
        from reference.train.own_texts import OwnTexts
    from reference.losses import loss_of, with_settings

    chosen = with_settings(loss_of(loss), settings or [])
    trees = DraftTrees(groups=groups, shuffled=shuffled)
    speed = rate if rate is not None else NEW_RATE if start is None else STARTED_RATE
    recipe = HeadRecipe(chosen, steps=steps, rows=rows, seed=seed, rate=speed, roots=roots, trees=trees)
    stored, config = OwnTexts(texts), None
    require_writable(out / "file")
    loaded = _pair(target, start, device)
    if start is None:
        made, name = kind or chosen.head, loaded.names[0]
        config = head_config(
            loaded.target, made, intermediate_size=intermediate, draft_vocab_size=vocabulary, name=name
        )
    with progress("training") as done:
        train_head(loaded, stored, out, recipe, config, done)
    print(f"wrote {out}")


def selector(
    traces: Annotated[
        list[Path],
        typer.Option(
            "--trace",
            help="Folder of a trace above temperature 0, from `spectheory trace`. Repeat for each sampling setting.",
        ),
    ],
    latency: Annotated[Path, typer.Option(help="Latency record of the machine that the selector is for.")],
    out: Annotated[
        Path, typer.Option(help="Folder of the selector. To continue an interrupted run, repeat the command.")
    ],
    verifier: Annotated[str, typer.Option(help="Verifier of i.i.d. drafts, such as SpecInfer.")] = "SpecInfer",
    every: Annotated[
        int, typer.Option(min=1, help="Number of tokens from one position to the next at which trees are compared.")
    ] = 16,
    draws: Annotated[int, typer.Option(min=2, help="Number of independent draws of the paths at each position.")] = 4,
    steps: Annotated[int, typer.Option(min=1, help="Number of updates of the weights.")] = 300,
    seed: Seed = 0,
) -> None:
    """Train the neural selector of delayed trees: which tree to draft in each cycle.

    First the expected tokens of all 324 possible choices are computed at every 16th token of the traces (see --every),
    about 6 positions a second on a core with the shipped pair. They are kept in the folder of the selector.
    """
    from reference.judging import HeldOutTexts
    from reference.part_files import stamp_of
    from reference.sampling import Sampling
    from reference.selector import LabelSettings, SelectorTraining, read_labels, train_selector, write_labels
    from reference.selector.choices import check_latency
    from reference.selector.training import check_samplings

    measured, labels = Latency.load(latency), [out / f"labels-{number}" for number in range(len(traces))]
    asked = LabelSettings((verifier,), every=every, draws=draws, seed=seed)
    settings = SelectorTraining(verifier, steps=steps, seed=seed)
    check_latency(measured)
    check_samplings([Sampling.of(stamp_of(trace)) for trace in traces])
    require_writable(out / "file")
    for folder, trace in zip(labels, traces, strict=True):
        with progress(f"labels of {trace}") as done:
            write_labels(HeldOutTexts.of_trace(trace), asked, folder, done)
    with progress("training") as done:
        train_selector([read_labels(folder) for folder in labels], measured, settings, out, done)
    print(f"wrote {out}")


def _pair(target: Path | None, draft: Path | None, device: str) -> Pair:
    """The target with a draft; with itself in place of a draft if there is none, which gives it the vocabulary."""
    from reference.models import TARGET

    place = target or TARGET
    return PairOptions(place, draft or place, device=device).load()


def _share(text: str) -> tuple[int, int]:
    """(k, n) of "k/n"."""
    first, _, count = text.partition("/")
    if not (is_digits(first) and is_digits(count) and int(first) < int(count)):
        raise InputError(f"share must be k/n with 0 <= k < n, such as 0/2 and 1/2, got {text!r:.40}")
    return int(first), int(count)
