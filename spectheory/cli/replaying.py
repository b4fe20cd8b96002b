"""The command `replay`: tau of trees and verifiers on recorded texts, and where their cycles end."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from spectheory.cli.options import Json, Reads, numbers, tree_in
from spectheory.cli.output import console
from spectheory.cli.planning import texts_of
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.otlp import NSS
from spectheory.planning.replayed import USUAL_LENGTHS, planned_verifiers
from spectheory.replay import Replays, where_cycles_end
from spectheory.verify import TopDown, name_of


def replay(
    texts: Annotated[
        Replays, Reads(texts_of), typer.Argument(metavar="TRACE", help="Folder of a trace, from `spectheory trace`.")
    ],
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
    verifier: Annotated[
        str | None, typer.Option(help="Replay only this verifier, such as Traversal.", show_default="those of a plan")
    ] = None,
    ends: Annotated[
        bool,
        typer.Option(
            "--ends",
            help="Also print where cycles end, tau without misses there, and tau of drafts that are closer to the "
            "target: for each --tree, or for each chain if none is given.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict tokens per target call of chains and trees, with the verifiers of a plan, from recorded texts.

    Nothing is assumed about the rates: the cycles that a decoder would make on these texts are counted exactly. The
    intervals are over texts. Of sampled texts, the row NSS of a chain has the draft's most probable tokens, which is
    what vLLM and SGLang draft by default.
    """
    from spectheory.report.tables import cycle_ends_rows, replayed_rows

    lengths = USUAL_LENGTHS if chains is None else numbers("--chains", chains, int)
    if min(lengths) < 1:
        raise InputError(f"--chains must be numbers of at least 1, got {chains!r}")
    given = [tree_in(file) for file in tree or ()]
    if chains is None:
        lengths = [length for length in lengths if length <= texts.deepest and texts.can_replay(Tree.chain(length))]
    replayed, ended = [], []
    explained = [] if not ends else given or list(map(Tree.chain, lengths))
    for shape in (*map(Tree.chain, lengths), *given):
        greedy_drafts = [(TopDown(NSS()), DrawRule.TOP_K)] * (shape.is_chain and not texts.greedy)
        for by, rule in (*planned_verifiers(texts, shape), *greedy_drafts):
            name = name_of(by)
            if verifier in (None, name):
                replayed.append((shape, name, texts.replay(shape, by, rule)))
                ended.append(where_cycles_end(texts, shape, by, rule) if shape in explained else None)
    if not replayed:
        raise InputError(f"--verifier must be one that suits the texts and trees, such as Traversal, got {verifier!r}")
    if as_json:
        rows = [{"tree": one.parent.tolist(), "verifier": by} | held.to_dict() for one, by, held in replayed]
        for row, found in zip(rows, ended, strict=True):
            if found is not None:
                row["ends"] = {name: np.asarray(value).tolist() for name, value in asdict(found).items()}
        print(json.dumps(rows, indent=1))
        return
    console.print(replayed_rows(texts, replayed))
    for (shape, name, _), found in zip(replayed, ended, strict=True):
        if found is not None:
            console.print(cycle_ends_rows(shape, name, found))
