"""`compare_drafts`: drafts of a target compared on the same texts, by exact E[tau] and paired by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from jaxtyping import Float

from reference.forced_logits import forced_texts
from reference.models import Pair, weights_hash
from reference.part_files import short_hash, stamp_of
from reference.sampling import Sampling
from reference.token_checks import check_continued
from reference.tracing import sources_of, traced_texts
from spectheory import DrawRule, Tree
from spectheory.core.errors import InputError
from spectheory.core.ratios import by_source, check_sources
from spectheory.replay.cycle import Cycle, OneText
from spectheory.replay.text import CycleChain
from spectheory.report.tables import TextTable
from spectheory.results.paired_difference import PairedDifference, Ratio, mean_half_width, paired_difference
from spectheory.verify import Greedy, Verifier, name_of, verifier_of

LEVEL = 0.95
"""Level of all intervals."""


@dataclass(frozen=True, eq=False)
class HeldOutTexts:
    """Texts that a target generated after prompts on which no draft was trained.

    Attributes:
        pair: the target, and any draft of its vocabulary.
        prompts: the tokens before each text.
        texts: tokens that the target generated under `sampling`.
        sampling: temperature, top-k and top-p of the texts.
        sources: where each prompt is from, such as the name of its file. Texts of one source are one cluster, because
            prompts that are cut from one file are not independent; None means that texts of equal prompts are.

    Raises:
        InputError: the prompts and texts do not belong to this pair (see `check_continued`), or there is not a source
            for each prompt.
    """

    pair: Pair
    prompts: list[list[int]]
    texts: list[list[int]]
    sampling: Sampling
    sources: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_continued(self.pair, self.prompts, self.texts)
        check_sources(self.sources, len(self.prompts))

    @classmethod
    def of_trace(cls, folder: Path, pair: Pair | None = None) -> Self:
        """The texts of a trace; `pair` is the pair that it was recorded with, None loads it as it was recorded.

        Raises:
            InputError: the folder holds no trace or a damaged one, or it was recorded with another pair.
        """
        return cls(*traced_texts(folder, pair), Sampling.of(stamp_of(folder)), sources_of(folder))

    @cached_property
    def hashes(self) -> list[str]:
        """A hash of the source of each text, or of its prompt."""
        return [short_hash(one) for one in self.sources or self.prompts]

    def roots(self, deepest: int) -> int:
        """Number of positions at which a whole cycle of this depth fits after the first token."""
        return sum(max(0, len(text) - deepest - 1) for text in self.texts)


@dataclass(frozen=True, eq=False)
class DraftRun:
    """One draft on the texts.

    Attributes:
        ratio: expected tokens over expected cycles, by cluster.
        accepted: expected number of cycles in all texts together that keep 0..L drafted tokens.
    """

    ratio: Ratio
    accepted: Float[np.ndarray, " lengths"]

    @property
    def acceptance(self) -> Float[np.ndarray, " depths"]:
        """Share of the cycles that keep a token at depth 1..L, of those that kept one before; NaN where none did."""
        kept = self.accepted[::-1].cumsum()[::-1]
        return np.divide(kept[1:], kept[:-1], out=np.full(len(kept) - 1, np.nan), where=kept[:-1] > 0)


@dataclass(frozen=True, eq=False)
class DraftComparison:
    """Drafts on the same texts with one tree and one verifier.

    Attributes:
        title: what was compared, in words.
        runs: the runs of each draft, which differ in the seed of training only; the first draft is the baseline.
    """

    title: str
    runs: Mapping[str, tuple[DraftRun, ...]]

    def tau(self, name: str) -> tuple[float, float]:
        """Mean E[tau] of the runs of a draft, and half its interval over other prompts."""
        ratios = [run.ratio for run in self.runs[name]]
        return float(np.mean([one.value for one in ratios])), mean_half_width(ratios, LEVEL)

    def difference(self, name: str, other: str, *, by_run: bool = False) -> PairedDifference:
        """By how much a draft is above another one, paired by prompt; see `paired_difference`."""
        return paired_difference(*([run.ratio for run in self.runs[one]] for one in (name, other)), by_run=by_run)

    def table(self) -> TextTable:
        """E[tau] of each draft, its difference from the first one, and its acceptance by depth."""
        base, *_ = self.runs
        rows = []
        for name, runs in self.runs.items():
            tau, half = self.tau(name)
            found = self.difference(name, base)
            against = "" if name == base else f"{found.percent:+.2f}% ± {found.half_width(LEVEL):.2f}"
            depths = (f"{rate:.3f}" for rate in np.mean([run.acceptance for run in runs], 0))
            rows.append((name, str(len(runs)), f"{tau:.3f} ± {half:.3f}", against, *depths))
        deepest = len(self.runs[base][0].accepted) - 1
        header = ("draft", "runs", "E[tau]", f"over {base}", *(f"depth {depth + 1}" for depth in range(deepest)))
        note = "Intervals of 95%, over prompts and, with several runs, over seeds of training. Depths: share of cycles."
        return TextTable(self.title, header, tuple(rows), note=note)


def compare_drafts(
    texts: HeldOutTexts,
    drafts: Mapping[str, Sequence[Pair]],
    tree: Tree,
    verifier: Verifier | None = None,
    *,
    seed: int = 0,
) -> DraftComparison:
    """E[tau] and acceptance of drafts on the same texts, by replay at every position.

    The expected tokens of a target call are computed, not sampled (see `Replays`), so small differences are seen, and
    what is hard about a prompt cancels. Only the distributions of a few texts are in memory at a time.

    Args:
        texts: texts of the target on which no draft was trained.
        drafts: for each name the pairs of this target with one draft each; several differ in the seed of training.
        tree: the static tree that every draft drafts in every cycle.
        verifier: None means Greedy at temperature 0, else block verification for a chain and Traversal for a tree.
        seed: seed of the drawn siblings of the tokens of a text. All drafts share the random numbers.

    Raises:
        InputError: a draft has another target or too short a context for the texts, no cycle fits into them, or the
            verifier does not suit them.
        LogitsError: a model returns logits that are not distributions.
    """
    cycle = usual_cycle(tree, texts.sampling, verifier)
    target = weights_hash(texts.pair.target)
    for name, pairs in drafts.items():
        if any(pair.target is not texts.pair.target and weights_hash(pair.target) != target for pair in pairs):
            raise InputError(f"{name} has another target than the texts: load it with `with_draft(texts.pair, ...)`")
    if not texts.roots(tree.max_depth):
        raise InputError(f"texts must be longer than a cycle of depth {tree.max_depth} and one token: give longer ones")
    words = f"chain of {tree.budget}" if tree.is_chain else f"tree of {tree.budget}, {tree.max_depth} deep"
    title = (
        f"{texts.roots(tree.max_depth):,} roots in texts of {len(set(texts.hashes)):,} prompts or sources, "
        f"{texts.sampling}: {words}, {name_of(cycle.verifier)}"
    )
    runs = {name: tuple(_run(texts, pair, cycle, tree, seed) for pair in pairs) for name, pairs in drafts.items()}
    return DraftComparison(title, runs)


def usual_cycle(tree: Tree, sampling: Sampling, verifier: Verifier | None = None) -> Cycle:
    """The tree as it is usually drafted and verified on texts of this sampling; see `compare_drafts`.

    Children are drawn independently for a chain, else without replacement, if the verifier is lossless for that.
    """
    if not tree.budget:
        raise InputError("tree must have at least one drafted node, got the root alone: all drafts would be equal")
    if verifier is not None and sampling.greedy != isinstance(verifier, Greedy):
        wanted = "Greedy" if sampling.greedy else "a verifier of sampled text"
        raise InputError(f"verifier must be {wanted} for texts of {sampling}, got {name_of(verifier)}")
    if sampling.greedy:
        return Cycle(tree, Greedy())
    by = verifier or verifier_of("Block" if tree.is_chain else "Traversal")
    drawn = DrawRule.IID if tree.is_chain else DrawRule.NO_REPLACEMENT
    return Cycle(tree, by, drawn if drawn in by.rules else by.rules[0])


def _run(texts: HeldOutTexts, pair: Pair, cycle: Cycle, tree: Tree, seed: int) -> DraftRun:
    rows = []
    read = forced_texts(pair, texts.prompts, texts.texts, texts.sampling, tree.max_depth)
    for number, text in enumerate(read):
        kept = cycle.kept(OneText(text, [seed, number]))
        chain = CycleChain(kept[: max(0, len(kept) - tree.max_depth)])
        rows.append(chain.starts @ chain.ends)
    accepted, lengths = np.array(rows), np.arange(1, tree.max_depth + 2)
    return DraftRun(Ratio(*by_source(texts.hashes, accepted @ lengths, accepted.sum(1))), accepted.sum(0))
