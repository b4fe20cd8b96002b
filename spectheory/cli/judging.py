"""The command `head evaluate`: drafts and heads compared on the same texts of their target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spectheory.cli.measuring import TopK, TopP
from spectheory.cli.options import (
    SHIPPED,
    SHIPPED_PROMPTS,
    USUAL_CHAIN,
    Count,
    Force,
    Json,
    PairOptions,
    PromptOptions,
    ReplayedTree,
    Seed,
    Skip,
    Temperature,
)
from spectheory.cli.output import progress, require_free, show
from spectheory.cli.tree_files import TreeFile, tree_file
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.verify import verifier_of

if TYPE_CHECKING:
    from reference.judging import JudgedPolicy
    from reference.sampling import Sampling


def evaluate(
    group: Annotated[
        list[str],
        typer.Option(
            help="Name of a draft and its folder, such as talf=heads/talf; several folders, separated by commas, are "
            "runs that differ in the seed of training. `shipped` stands for the shipped head. Repeat for each draft."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for the record, a page (index.html) and the results of each text. To continue an "
            "interrupted comparison, or to add a draft, repeat the command."
        ),
    ],
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a trace, from `spectheory trace`, whose target and texts are used. By default the target "
            "first generates texts from --prompts."
        ),
    ] = None,
    tree: ReplayedTree = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="In place of a tree: a search that grows a tree of 16 nodes anew in each cycle, such as EAGLE-2 or "
            "OPT-Tree."
        ),
    ] = None,
    verifier: Annotated[
        str | None,
        typer.Option(
            help="Verifier of sampled text, such as Traversal.",
            show_default="that of the plan, or Block for a chain and Traversal for a tree",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Name of the draft that the others are compared with.", show_default="first group"),
    ] = None,
    by_file: Annotated[
        bool,
        typer.Option(
            "--by-file",
            help="Count files, not prompts, in the intervals. The prompts must be pieces of the held-out files of this "
            "Python's library, as the shipped ones are: prompts of one file are not independent.",
        ),
    ] = False,
    pair: PairOptions = SHIPPED,
    skip: Skip = 0,
    count: Count = 100,
    text: PromptOptions = SHIPPED_PROMPTS,
    temperature: Temperature = 0.0,
    top_k: TopK = None,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare drafts on the same texts of a target: exact expected tau, acceptance and calibration, with intervals.

    Every draft is replayed on every position of the texts, so that small differences are seen. The intervals pair the
    texts and count prompts, not tokens; with several seeds of training per draft they hold the difference between seeds
    too. The smallest difference that the comparison could have seen is stated.
    """
    from reference.held_out import sources
    from reference.judging import HeldOutTexts, JudgeSettings, judge
    from reference.judging.folders import named_folders, read_groups
    from reference.part_files import stamp_of
    from reference.sampling import Sampling, require_drawing
    from spectheory.report.draft_comparison import judged_page, judged_rows, judged_words

    record, page = out / "comparison.json", out / "index.html"
    require_free([trace, tree], record, page, force=force)
    folders = named_folders(group)
    if baseline is not None and baseline not in folders:
        raise InputError(f"--baseline must be one of {', '.join(folders)}, got {baseline!r:.80}")
    if trace is not None and (pair != SHIPPED or temperature or top_k is not None or top_p != 1):
        raise InputError(
            "--trace names its target, device and sampling: leave out --target, --draft, --device, --dtype, "
            "--temperature, --top-k and --top-p"
        )
    sampling = Sampling(temperature, top_k, top_p) if trace is None else Sampling.of(stamp_of(trace))
    policy = _policy(sampling, tree, search, verifier)
    settings = JudgeSettings(policy, baseline, seed)
    if trace is None:
        require_drawing(sampling)
        text.read(skip, count)
        trace = _recorded(out, pair, text, sampling, skip, count, seed)
    texts = HeldOutTexts.of_trace(trace)
    if by_file:
        texts = replace(texts, sources=sources(texts.pair, texts.prompts))
    with progress("texts") as tell:
        found = judge(texts, read_groups(texts.pair, folders, policy.deepest), settings, out, tell)
    pages = {page: judged_page("Drafts compared on the same texts", found)}
    show(found, *judged_words(found), *judged_rows(found), as_json=as_json, out=record, pages=pages)


def _recorded(
    out: Path, options: PairOptions, text: PromptOptions, sampling: Sampling, skip: int, count: int, seed: int
) -> Path:
    """The folder of a trace of prompts that the target continues."""
    from reference.tracing import TraceSettings, record_trace

    pair, folder = options.load(), out / "texts"
    settings = TraceSettings(
        text.dataset,
        sampling.temperature,
        new_tokens=text.new_tokens,
        seed=seed,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
    )
    with progress("texts of the target") as tell:
        record_trace(pair, text.encoded(pair, skip, count), settings, folder, tell)
    return folder


def _policy(sampling: Sampling, file: Path | None, search: str | None, named: str | None) -> JudgedPolicy:
    """What is drafted and who verifies it."""
    from reference.judging import StaticTree
    from reference.judging.policies import searched

    if search is not None:
        if file is not None or named is not None:
            raise InputError("--search grows its own trees, kept by the longest match: leave out --tree and --verifier")
        return searched(search)
    shape, planned, rule = TreeFile(Tree.chain(USUAL_CHAIN)) if file is None else tree_file(file)
    if sampling.greedy and named not in (None, "Greedy"):
        raise InputError(f"--verifier must be left out for greedy text, got {named!r:.60}")
    chosen = named or planned
    by = None if chosen is None else verifier_of(chosen)
    return StaticTree.usual(shape, sampling, by, rule if named is None else None)
