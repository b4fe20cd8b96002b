"""The command `replay`: tau of trees and verifiers on recorded texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.options import Json, numbers
from spectheory.cli.output import console
from spectheory.cli.tree_files import tree_file
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.planning.replayed import planned_verifiers
from spectheory.replay import Replays
from spectheory.replay.chain_records import read_chain_records
from spectheory.verify import name_of

USUAL = [1, 2, 3, 4, 5, 6, 8]
"""Lengths of the chains that are replayed by default."""


Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="Folder of a trace, from `spectheory trace`, or a JSON Lines file with the accepted length of a long "
        "chain at every position, as the simulator of SpecDecode-Bench keeps them.",
    ),
]
Drafter = Annotated[
    str | None,
    typer.Option(
        "--drafter", help="Name of the drafter in a JSON Lines file, such as acc_eagle; needed if the file has several."
    ),
]


def texts_in(source: Path, drafter: str | None) -> Replays:
    """The texts of a trace, or of a JSON Lines file with accepted lengths."""
    if not source.is_dir():
        return Replays(read_chain_records(source, drafter))
    from reference.replaying import traced_replays

    if drafter is not None:
        raise InputError(f"--drafter names a drafter in a JSON Lines file, but {source} is a folder: leave it out")
    return traced_replays(source)[0]


def replay(
    source: Source,
    chains: Annotated[
        str | None,
        typer.Option(
            help="Lengths of the chains to replay, comma-separated.",
            show_default="those of 1,2,3,4,5,6,8 that were recorded",
        ),
    ] = None,
    tree: Annotated[
        list[Path] | None,
        typer.Option(help="File of a tree to replay: a plan, or a parent array such as [-1, 0, 0]. May be repeated."),
    ] = None,
    drafter: Drafter = None,
    as_json: Json = False,
) -> None:
    """Predict tokens per target call of chains and trees, with every verifier, from recorded texts.

    Nothing is assumed about the rates: the cycles that a decoder would make on these texts are counted exactly. The
    intervals are over texts.
    """
    from spectheory.report.tables import replayed_rows

    lengths = USUAL if chains is None else numbers("--chains", chains, int)
    if min(lengths) < 1:
        raise InputError(f"--chains must be numbers of at least 1, got {chains!r}")
    given = [tree_file(file).tree for file in tree or ()]
    texts = texts_in(source, drafter)
    if chains is None:
        lengths = [length for length in lengths if length <= texts.deepest and texts.can_replay(Tree.chain(length))]
    shapes = [*map(Tree.chain, lengths), *given]
    rows = [
        (
            shape,
            "" if texts.recorded else name_of(verifier),
            texts.replay(shape, verifier, None if texts.greedy else rule),
        )
        for shape in shapes
        for verifier, rule in planned_verifiers(texts, shape)
    ]
    if as_json:
        named = [(shape.parent.tolist(), verifier or None, one.to_dict()) for shape, verifier, one in rows]
        print(json.dumps([{"tree": parent, "verifier": name} | held for parent, name, held in named], indent=1))
    else:
        console.print(replayed_rows(rows))
