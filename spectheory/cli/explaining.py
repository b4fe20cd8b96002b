"""The command `explain`: where tau is lost on recorded texts, and what other choices give."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.options import USUAL_CHAIN, Force, Json, ReplayedTree
from spectheory.cli.output import PAGE, Output, progress, require_free, show_files
from spectheory.cli.replaying import Drafter, Source, texts_in
from spectheory.cli.tree_files import TreeFile, tree_file
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.json_values import to_json
from spectheory.core.tree import Tree
from spectheory.replay import Explained, Replays
from spectheory.replay import explain as explained_on
from spectheory.results.tally import Tally
from spectheory.verify import Verifier, verifier_of


def explain(
    source: Source,
    tree: ReplayedTree = None,
    verifier: Annotated[
        str | None,
        typer.Option(help="Verifier of sampled text, such as Traversal.", show_default="that of the plan, or Naive"),
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option(
            help="Tally of the same requests in the same order, from `spectheory decode --out`, shown for comparison."
        ),
    ] = None,
    drafter: Drafter = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the record, the figures and a page (index.html).")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Explain tokens per target call: where cycles end, and what another tree, verifier or draft would give.

    Nothing is assumed about the rates: everything is averaged over the cycles that a decoder would make on the recorded
    texts. Each text counts as one request; the intervals are over texts.
    """
    from spectheory.report.explained import explained_rows, explained_words

    if out is not None:
        pages = Output(out / "explained.json", Explained.kind), Output(out / "index.html", PAGE)
        require_free([source, tree, measured], *pages, force=force)
    tally = None if measured is None else Tally.load(measured)
    given = None if tree is None else tree_file(tree)
    if verifier not in (None, "Greedy"):
        verifier_of(verifier)
    texts = texts_in(source, drafter)
    shape, by, rule = _chosen(texts, given, verifier)
    with progress("replays") as tell:
        found = explained_on(texts, shape, by, rule, measured=tally, progress=tell)
    files = [] if out is None else _files(out, found)
    require_free([source, tree, measured], *(Output(path, kind) for path, kind, _ in files), force=force)
    written = [(path, text) for path, _, text in files]
    show_files(found, explained_words(found), explained_rows(found), written, as_json=as_json)


def _chosen(texts: Replays, given: TreeFile | None, named: str | None) -> tuple[Tree, Verifier | None, DrawRule | None]:
    """The tree, the verifier and the draw rule; None for the usual ones."""
    if texts.greedy and named not in (None, "Greedy"):
        raise InputError(f"--verifier must be left out for greedy text and recorded lengths, got {named!r:.60}")
    if given is None:
        fitting = [n for n in range(1, USUAL_CHAIN + 1) if n <= texts.deepest and texts.can_replay(Tree.chain(n))]
        return Tree.chain(fitting[-1] if fitting else 1), _verifier(texts, named), None
    tree, planned, rule = given
    return tree, _verifier(texts, named or planned), rule if named is None and not texts.greedy else None


def _verifier(texts: Replays, name: str | None) -> Verifier | None:
    return None if texts.greedy or name is None else verifier_of(name)


def _files(out: Path, found: Explained) -> list[tuple[Path, str | None, str]]:
    """The path, the kind and the text of each file."""
    from spectheory.report.explained import depth_figure, explained_page, request_figure, what_if_figure

    return [
        (out / "explained.json", found.kind, to_json(found.to_dict())),
        (out / "index.html", PAGE, explained_page("Where tau is lost", found)),
        (out / "depths.svg", None, depth_figure(found)),
        (out / "choices.svg", None, what_if_figure(found)),
        (out / "requests.svg", None, request_figure(found)),
    ]
