"""Train the shipped models, draft heads on a target's own texts, and selectors: `python -m reference.train`.

Every command continues after an interruption, also after `kill -9`, if it is repeated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from reference.heads import Kind
from reference.judge import HeldOutTexts
from reference.losses import ALL, loss_of
from reference.models import TARGET, Pair, load_pair
from reference.prompts import load_prompts, training_texts
from reference.selector import LabelSettings, SelectorTraining, selector_labels, train_selector
from reference.train.head import NEW_RATE, STARTED_RATE, HeadRecipe, head_config, train_head
from reference.train.own_texts import OwnTexts, TextSettings, write_own_texts
from reference.train.pair import build_pair, said
from spectheory import Latency
from spectheory.core.errors import InputError


def pair(given: argparse.Namespace) -> None:
    """Train the shipped models from scratch on the standard library's source: three hours on two cores."""
    build_pair(given.out, given.work)


def texts(given: argparse.Namespace) -> None:
    """Let the target continue prompts, and store its tokens and hidden states, on which heads are trained."""
    settings = TextSettings(
        rows=given.rows,
        prompt_tokens=given.prompt_tokens,
        new_tokens=given.new_tokens,
        temperatures=tuple(map(float, given.temperatures.split(","))),
        layers=None if given.layers is None else tuple(map(int, given.layers.split(","))),
        seed=given.seed,
    )
    corpus, loaded = None if given.corpus is None else load_prompts(given.corpus), _pair(given, None)
    pieces = training_texts(loaded)
    if corpus is not None:
        pieces = [list(row) for row in loaded.tokenizer(corpus, add_special_tokens=False)["input_ids"]]  # type: ignore[arg-type]
    with said("texts") as done:
        write_own_texts(loaded, pieces, settings, given.out, done)


def head(given: argparse.Namespace) -> None:
    """Train a draft head for a target by one of the papers' losses, and write it in half precision."""
    loss = loss_of(given.loss, given.set)
    rate = given.rate or (NEW_RATE if given.start is None else STARTED_RATE)
    recipe = HeadRecipe(loss, given.steps, given.rows, given.seed, rate, given.roots)
    stored, loaded, config = OwnTexts(given.texts), _pair(given, given.start), None
    if given.start is None:
        config = head_config(
            loaded.target,
            given.kind or loss.head,
            intermediate_size=given.intermediate,
            draft_vocab_size=given.vocabulary,
            name=loaded.names[0],
        )
    with said("steps") as done:
        train_head(loaded, stored, given.out, recipe, config, done)


def selector(given: argparse.Namespace) -> None:
    """Train the neural selector of delayed trees: which tree to draft in each cycle.

    First the expected tokens of all trees are computed at every 16th token of the trace, which takes the time.
    """
    measured = Latency.load(given.latency)
    asked = LabelSettings(given.verifier, every=given.every, draws=given.draws, seed=given.seed)
    with said("texts") as done:
        labels = selector_labels(HeldOutTexts.of_trace(given.trace), asked, given.out / "labels", done)
    train_selector(labels, measured, SelectorTraining(steps=given.steps, seed=given.seed)).save(given.out)


def _pair(given: argparse.Namespace, draft: Path | None) -> Pair:
    """The target with a draft; with itself in place of a draft if there is none, which gives it the vocabulary."""
    return load_pair(given.target, draft or given.target, device=given.device)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reference.train", description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(required=True)
    kept = "folder to write; repeat the command to continue an interrupted run"
    one = commands.add_parser("pair", help=pair.__doc__)
    one.add_argument("--work", type=Path, required=True, help="folder for checkpoints")
    one.set_defaults(run=pair)

    many = commands.add_parser("texts", help=texts.__doc__)
    many.add_argument("--corpus", type=Path, help="JSON Lines file with a field 'text', from which prompts are cut; "
        "default: the files that the shipped pair was trained on")  # fmt: skip
    many.add_argument("--rows", type=int, default=10_240, help="number of texts")
    many.add_argument("--prompt-tokens", type=int, default=64)
    many.add_argument("--new-tokens", type=int, default=192, help="tokens that the target generates after each prompt")
    many.add_argument("--temperatures", default="0,1", help="sampling temperatures, which the files use in turn")
    many.add_argument("--layers", help="layers whose inputs are stored, such as 2,9,15; default: 2, n/2 and n-3")
    many.set_defaults(run=texts)

    own = commands.add_parser("head", help=head.__doc__)
    own.add_argument("--loss", required=True, help=", ".join(loss.name for loss in ALL))
    own.add_argument("--set", action="append", default=[], help="setting of the loss, such as passes=3")
    own.add_argument("--texts", type=Path, required=True, help="folder of the target's own texts")
    own.add_argument("--kind", choices=get_args(Kind), help="kind of a new head; default: as the loss was made for")
    own.add_argument("--start", type=Path, help="folder of a head that is trained on; gto needs it")
    own.add_argument("--intermediate", type=int, default=512, help="width of a new head's MLP")
    own.add_argument("--vocabulary", type=int, help="size of the draft vocabulary of a new EAGLE-3 head")
    own.add_argument("--steps", type=int, default=1200, help="updates of the weights")
    own.add_argument("--rows", type=int, default=16, help="texts in each step")
    own.add_argument("--roots", type=int, default=64, help="for talf: roots in each text at which trees are built")
    own.add_argument("--rate", type=float, help="learning rate of the matrices; default: 0.02, or 0.003 with --start")
    own.set_defaults(run=head)

    tree = commands.add_parser("selector", help=selector.__doc__)
    tree.add_argument("--trace", type=Path, required=True, help="trace above temperature 0")
    tree.add_argument("--latency", type=Path, required=True, help="latency record of the machine")
    tree.add_argument("--verifier", default="SpecInfer", help="verifier of i.i.d. drafts")
    tree.add_argument("--every", type=int, default=16, help="tokens from one root to the next")
    tree.add_argument("--draws", type=int, default=4, help="independent draws of the paths at each root")
    tree.add_argument("--steps", type=int, default=300, help="updates of the weights")
    tree.set_defaults(run=selector)
    for command in (one, many, own, tree):
        command.add_argument("--out", type=Path, required=True, help=kept)
    for command in (many, own):
        command.add_argument(
            "--target", type=Path, default=TARGET, help="folder of the target; default: the shipped one"
        )
        command.add_argument("--device", default="cpu")
    for command in (many, own, tree):
        command.add_argument("--seed", type=int, default=0)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands."""
    given = _parser().parse_args(arguments)
    try:
        given.run(given)
    except InputError as error:
        sys.exit(f"error: {error}")
    print(f"wrote {given.out}")


if __name__ == "__main__":
    main()
