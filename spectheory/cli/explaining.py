"""The command `explain`: where tau is lost on recorded texts, and what other choices give."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.options import USUAL_CHAIN, Force, Json, ReplayedTree
from spectheory.cli.output import progress, require_free, show
from spectheory.cli.replaying import Drafter, Source, texts_in
from spectheory.cli.tree_files import TreeFile, tree_file
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
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
        pages = out / "explained.json", out / "index.html"
        require_free([source, tree, measured], *pages, force=force)
    tally = None if measured is None else Tally.load(measured)
    given = None if tree is None else tree_file(tree)
    if verifier not in (None, "Greedy"):
        verifier_of(verifier)
    texts = texts_in(source, drafter)
    shape, by, rule = _chosen(texts, given, verifier)
    with progress("replays") as tell:
        found = explained_on(texts, shape, by, rule, measured=tally, progress=tell)
    pages: dict[Path, str] = {} if out is None else _pages(out, found)
    require_free([source, tree, measured], *pages, force=force)
    record = None if out is None else out / "explained.json"
    show(found, *explained_words(found), *explained_rows(found), as_json=as_json, out=record, pages=pages)


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


def _pages(out: Path, found: Explained) -> dict[Path, str]:
    """The text of each page and figure."""
    from spectheory.report.explained import depth_figure, explained_page, request_figure, what_if_figure

    return {
        out / "index.html": explained_page("Where tau is lost", found),
        out / "depths.svg": depth_figure(found),
        out / "choices.svg": what_if_figure(found),
        out / "requests.svg": request_figure(found),
    }
