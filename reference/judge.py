"""`compare_drafts`: drafts of a target compared on the same texts, by exact E[tau] and paired by prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from reference.forced_logits import BATCH, ForcedBatch, draft_logits, normalised, target_rows
from reference.heads import Head
from reference.models import Pair, weights_hash
from reference.part_files import short_hash, stamp_of
from reference.sampling import Sampling
from reference.token_checks import check_continued
from reference.tracing import by_request, traced_pair, traced_prompts
from spectheory import DrawRule, GreedyText, TargetText, Tree
from spectheory.core.errors import InputError
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
        InputError: the prompts and texts do not belong to this pair (see `check_continued`), there is not a source for
            each prompt, or fewer than 2 prompts or sources differ.
    """

    pair: Pair
    prompts: list[list[int]]
    texts: list[list[int]]
    sampling: Sampling
    sources: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_continued(self.pair, self.prompts, self.texts)
        if self.sources is not None and len(self.sources) != len(self.prompts):
            raise InputError(f"sources must name one for each of {len(self.prompts)} prompts, got {len(self.sources)}")
        if len(set(self.hashes)) < 2:
            raise InputError(
                "texts must be of at least 2 different prompts or sources: an interval needs more than one"
            )

    @classmethod
    def of_trace(cls, folder: Path, pair: Pair | None = None) -> Self:
        """The texts of a trace; `pair` is the pair that it was recorded with, None loads it as it was recorded.

        Raises:
            InputError: the folder holds no trace or a damaged one, or it was recorded with another pair.
        """
        texts = [text.tolist() for text in by_request(folder, "target_token")]
        stamp = stamp_of(folder)
        models = traced_pair(stamp) if pair is None else pair
        return cls(models, traced_prompts(folder, models)[: len(texts)], texts, Sampling.of(stamp))

    @cached_property
    def hashes(self) -> list[str]:
        """A hash of the source of each text, or of its prompt."""
        return [short_hash(one) for one in self.sources or self.prompts]

    @cached_property
    def identity(self) -> str:
        """A hash of all prompts and texts, and of the weights of the target."""
        return short_hash([self.prompts, self.texts, weights_hash(self.pair.target)])

    def roots(self, deepest: int) -> int:
        """Number of positions at which a whole cycle of this depth fits after the first token."""
        return sum(max(0, len(text) - deepest - 1) for text in self.texts)


@dataclass(frozen=True, eq=False)
class DraftRun:
    """One draft on the texts, by cluster.

    Attributes:
        name: folder of the draft.
        weights: hash of its weights.
        emitted: expected tokens of the cycles in the texts of each cluster.
        cycles: expected number of these cycles.
        accepted: expected number of cycles in all texts together that keep 0..L drafted tokens.
    """

    name: str
    weights: str
    emitted: Float[np.ndarray, " clusters"]
    cycles: Float[np.ndarray, " clusters"]
    accepted: Float[np.ndarray, " lengths"]

    @property
    def ratio(self) -> Ratio:
        """Expected tokens over expected cycles."""
        return Ratio(self.emitted, self.cycles)

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
    rule: DrawRule | None = None,
    *,
    seed: int = 0,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> DraftComparison:
    """E[tau] and acceptance of drafts on the same texts, by replay at every position.

    The expected tokens of a target call are computed, not sampled (see `Replays`), so small differences are seen, and
    what is hard about a prompt cancels. Only the distributions of a few texts are in memory at a time.

    Args:
        texts: texts of the target on which no draft was trained.
        drafts: for each name the pairs of this target with one draft each; several differ in the seed of training.
        tree: the static tree that every draft drafts in every cycle.
        verifier: None means Greedy at temperature 0, else block verification for a chain and Traversal for a tree.
        rule: how children are drawn; None means independently for a chain, else without replacement.
        seed: seed of the drawn siblings of the tokens of a text. All drafts share the random numbers.
        done: callback with the number of texts that are read, and of all.

    Raises:
        InputError: a draft has another target, is twice in a row, is too shallow or has too short a context for the
            texts, no cycle fits into them, or the verifier does not suit them.
        LogitsError: a model returns logits that are not distributions.
    """
    cycle = usual_cycle(tree, texts.sampling, verifier, rule)
    _check(texts, drafts, tree)
    pairs = {weights_hash(one.draft): one for runs in drafts.values() for one in runs}
    found = _replayed(texts, pairs, cycle, seed, done)
    _, clusters = np.unique(texts.hashes, return_inverse=True)
    words = f"chain of {tree.budget}" if tree.is_chain else f"tree of {tree.budget}, {tree.max_depth} deep"
    title = (
        f"{texts.roots(tree.max_depth):,} roots in texts of {clusters.max() + 1:,} prompts or sources, "
        f"{texts.sampling}: {words}, {name_of(cycle.verifier)}"
    )
    return DraftComparison(
        title,
        {
            name: tuple(_run(pair, found[weights_hash(pair.draft)], clusters) for pair in runs)
            for name, runs in drafts.items()
        },
    )


def usual_cycle(
    tree: Tree, sampling: Sampling, verifier: Verifier | None = None, rule: DrawRule | None = None
) -> Cycle:
    """The tree as it is usually drafted and verified on texts of this sampling; see `compare_drafts`."""
    if not tree.budget:
        raise InputError("tree must have at least one drafted node, got the root alone: all drafts would be equal")
    if verifier is not None and sampling.greedy != isinstance(verifier, Greedy):
        wanted = "Greedy" if sampling.greedy else "a verifier of sampled text"
        raise InputError(f"verifier must be {wanted} for texts of {sampling}, got {name_of(verifier)}")
    if sampling.greedy:
        return Cycle(tree, Greedy())
    by = verifier or verifier_of("Block" if tree.is_chain else "Traversal")
    drawn = DrawRule.IID if tree.is_chain else DrawRule.NO_REPLACEMENT
    return Cycle(tree, by, rule or (drawn if drawn in by.rules else by.rules[0]))


def _check(texts: HeldOutTexts, drafts: Mapping[str, Sequence[Pair]], tree: Tree) -> None:
    """Refuse what cannot be compared, before any model runs."""
    if not drafts or not all(drafts.values()):
        raise InputError("drafts must name at least one draft, each with at least one pair")
    longest = max(len(prompt) + len(text) for prompt, text in zip(texts.prompts, texts.texts, strict=True))
    target = weights_hash(texts.pair.target)
    for name, runs in drafts.items():
        if len({weights_hash(one.draft) for one in runs}) < len(runs):
            raise InputError(f"drafts of {name} must differ, got the same one twice: it would hide how seeds differ")
        for one in runs:
            if one.target is not texts.pair.target and weights_hash(one.target) != target:
                raise InputError(
                    f"{name} has another target than the texts: load it with `with_draft(texts.pair, ...)`"
                )
            if longest > one.context:
                raise InputError(f"{name} has a context of {one.context}, a prompt with its text has {longest} tokens")
    if not texts.roots(tree.max_depth):
        raise InputError(f"texts must be longer than a cycle of depth {tree.max_depth} and one token: give longer ones")


@torch.inference_mode()
def _replayed(
    texts: HeldOutTexts, pairs: Mapping[str, Pair], cycle: Cycle, seed: int, done: Callable[[int, int], None]
) -> dict[str, list[np.ndarray]]:
    """`accepted` of each draft on each text. The target reads each text once for all of them."""
    found: dict[str, list[np.ndarray]] = {weights: [] for weights in pairs}
    requests = list(zip(texts.prompts, texts.texts, strict=True))
    features = any(isinstance(pair.draft, Head) for pair in pairs.values())
    assert isinstance(cycle.shape, Tree)
    for first in range(0, len(requests), BATCH):
        batch = ForcedBatch(texts.pair, requests[first : first + BATCH], first, features=features)
        for weights, pair in pairs.items():
            offered = draft_logits(pair, batch, cycle.shape.max_depth)
            for place, text in enumerate(_texts(batch, offered, texts.sampling)):
                kept = cycle.kept(OneText(text, [seed, first + place], 1))
                chain = CycleChain(kept[: max(0, len(kept) - kept.shape[1] + 1)])
                found[weights].append(chain.starts @ chain.ends)
        done(first + len(batch.requests), len(requests))
    return found


def _texts(
    batch: ForcedBatch, offered: Float[Tensor, "D B T V"], sampling: Sampling
) -> Iterator[GreedyText | TargetText]:
    """Each text of a batch as it is replayed."""
    size = min(batch.pair.vocab_size, offered.shape[-1])
    for place, (_, tokens) in enumerate(batch.requests):
        span = batch.span(place)
        logits = offered[:, place, span, :size]
        if sampling.greedy:
            own = logits.gather(2, torch.tensor(tokens, device=logits.device).expand(len(logits), -1)[..., None])
            before = torch.arange(size, device=logits.device) < torch.tensor(tokens, device=logits.device)[:, None]
            ranks = ((logits > own) | ((logits == own) & before)).sum(-1)
            ranks = ranks.masked_fill(own[..., 0].isinf(), -1).cpu().numpy()  # not in the draft vocabulary
            yield GreedyText(ranks)
            continue
        p = target_rows(batch.target_logits[place, span, :size], tokens, sampling, batch.pair.target.dtype)
        yield TargetText(np.array(tokens), p, normalised(sampling.distribution(logits)))


def _run(pair: Pair, rows: list[np.ndarray], clusters: np.ndarray) -> DraftRun:
    """The sums over the texts of each cluster."""
    accepted = np.array(rows)
    emitted = np.bincount(clusters, accepted @ np.arange(1, accepted.shape[1] + 1))
    cycles = np.bincount(clusters, accepted.sum(1))
    return DraftRun(pair.names[1], weights_hash(pair.draft), emitted, cycles, accepted.sum(0))
