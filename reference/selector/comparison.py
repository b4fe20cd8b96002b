"""`compare_selectors`: a selector compared with static trees and oracles, at roots it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from reference.judge import LEVEL
from reference.selector.labels import Labels
from reference.selector.selector import Selector
from reference.selector.trees import best_static
from spectheory.core.errors import InputError
from spectheory.core.ratios import by_source
from spectheory.report.tables import TextTable
from spectheory.results.paired_difference import PairedDifference, Ratio, mean_half_width, paired_difference

PLAIN, OTHER, SELECTOR = "no draft", "static, chosen on other text", "selector"
ROOTED, SAME = "static without a trunk, chosen on the same text", "static, chosen on the same text"
NAIVE, CROSS = "oracle, judged on the draws it chose by", "oracle, judged on other draws"


@dataclass(frozen=True, eq=False)
class SelectorComparison:
    """Tokens per second of policies that choose a tree at each root, on the same roots.

    Attributes:
        note: the trees that were chosen, in words.
        runs: the throughput of each policy: tokens over seconds, by prompt or source; the selector has one run a seed.
        roots: number of roots.
    """

    note: str
    runs: dict[str, list[Ratio]]
    roots: int

    def throughput(self, name: str) -> float:
        """Tokens per second of a policy."""
        return float(np.mean([run.value for run in self.runs[name]]))

    def difference(self, name: str, other: str) -> PairedDifference:
        """By how much the throughput of policy `name` is above the throughput of `other`, paired by prompt."""
        return paired_difference(self.runs[name], self.runs[other])

    def table(self) -> TextTable:
        """Each policy against the static tree of other text."""
        rows = []
        for name, runs in self.runs.items():
            found = self.difference(name, OTHER)
            against = "" if name == OTHER else f"{found.percent:+.2f} ± {found.half_width(LEVEL):.2f}%"
            rate = f"{self.throughput(name):.2f} ± {mean_half_width(runs, LEVEL):.2f}"
            tau = np.mean([run.numerators.sum() for run in runs]) / self.roots
            rows.append((name, f"{tau:.3f}", rate, against))
        header = ("choice of the tree", "E[tau]", "tokens per second", "against the static tree of other text")
        return TextTable(f"{self.roots:,} roots", header, tuple(rows), note=self.note)


def compare_selectors(selectors: Sequence[Selector], labels: Labels, other: Labels) -> SelectorComparison:
    """Tokens per second of selectors, static trees and oracles at roots of texts, by the sums over these roots.

    The oracles take the trees that together have the highest throughput, by E[tau] at each root. Where E[tau] is a mean
    over drawn trees, the largest of 233 means is too large: an oracle that is judged on the draws by which it chose has
    this selection bias. The other oracle chooses by all draws except one and is judged on that draw, for each draw
    in turn. Both choose the same trees, so that their difference is the bias. On average over draws, the best choice by
    the exact E[tau] reaches a throughput between the two.

    The static tree of the source has no trunk and no more levels than a branch, and is chosen on the text on which it
    is judged. One tree of 233 on many roots has little selection bias, which the tree chosen on other text shows.

    Args:
        selectors: of one training with different seeds.
        labels: roots of prompts on which none of the selectors was trained.
        other: roots of other prompts, such as the training prompts, on which the static tree is chosen.

    Raises:
        InputError: labels are of another pair, other actions, another sampling or another verifier; or prompts are
            judged on which a choice was made.
    """
    first, space, draws = selectors[0], labels.space, labels.tokens.astype(float)
    for one in selectors:
        for found in (labels, other):
            one.require(found.weights, found.sampling)
            if (found.space, found.verifier) != (one.labels.space, one.labels.verifier):
                raise InputError(f"labels must have the actions and the verifier of the selector, got {found.verifier}")
    if set(labels.prompts) & {*other.prompts, *(prompt for one in selectors for prompt in one.labels.prompts)}:
        raise InputError("labels must be of prompts on which nothing was trained or chosen: give labels of other texts")
    seconds, tokens = space.seconds(first.latency, labels.contexts), draws.mean(1)
    sources, roots = labels.prompts.tolist(), np.arange(len(labels.prompts))

    def run(chosen: np.ndarray | int, values: np.ndarray) -> Ratio:
        return Ratio(*by_source(sources, values[roots, chosen], seconds[roots, chosen]))

    without = np.array([n for n, tree in enumerate(space.trees) if tree.trunk == 0 and tree.length <= space.length])
    fixed = {PLAIN: 0, ROOTED: int(without[best_static(tokens[:, without], seconds[:, without])])}
    fixed[SAME] = best_static(tokens, seconds)
    fixed[OTHER] = best_static(other.tokens.mean(1), space.seconds(first.latency, other.contexts))
    runs = {name: [run(tree, tokens)] for name, tree in fixed.items()}
    choices = [one.chosen(labels.features).numpy() for one in selectors]
    runs[SELECTOR] = [run(chosen, tokens) for chosen in choices]
    folds: dict[str, list[Ratio]] = {NAIVE: [], CROSS: []}
    for judge in range(draws.shape[1]):
        before = np.delete(draws, judge, 1).mean(1)
        chosen = best_by_root(before, seconds)
        folds[NAIVE].append(run(chosen, before))
        folds[CROSS].append(run(chosen, draws[:, judge]))
    for name, parts in folds.items():
        means = (np.mean([getattr(one, side) for one in parts], 0) for side in ("numerators", "denominators"))
        runs[name] = [Ratio(*means)]
    shares = np.bincount(np.concatenate(choices), minlength=len(space.trees)) / len(choices) / len(roots)
    most = (f"{space.trees[tree]} at {shares[tree]:.0%}" for tree in (-shares).argsort()[:5] if shares[tree] > 0)
    static = ", ".join(f"{name}: {space.trees[fixed[name]]}" for name in (ROOTED, SAME, OTHER))
    note = f"Trees (K, L1, L2): {static}. The selector takes {', '.join(most)} of the roots."
    return SelectorComparison(note, runs, len(roots))


def best_by_root(
    tokens: Float[np.ndarray, "roots trees"], seconds: Float[np.ndarray, "roots trees"]
) -> Int[np.ndarray, " roots"]:
    """The trees that together have the highest throughput, sum of tokens over sum of seconds.

    They are not the trees of the highest ratio at each root. With r the throughput that is reached, each root takes
    the tree of the highest tokens - r seconds (Dinkelbach's algorithm, which ends after finitely many rounds).
    """
    roots, chosen = np.arange(len(tokens)), np.full(len(tokens), best_static(tokens, seconds))
    while True:
        worth = tokens - tokens[roots, chosen].sum() / seconds[roots, chosen].sum() * seconds
        better = worth.argmax(1)
        if (worth[roots, better] <= worth[roots, chosen]).all():
            return chosen
        chosen = better
