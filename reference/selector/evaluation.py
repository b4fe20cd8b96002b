"""`evaluate_selector`: a selector compared with static trees and oracles, at roots it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reference.selector.choices import best_by_root, best_static, facts_of, seconds_of
from reference.selector.comparison import PolicyRun, SelectorComparison
from reference.selector.labels import Labels
from reference.selector.selector import Selector
from spectheory import Provenance
from spectheory.core.errors import InputError

PLAIN, OTHER = "no draft", "static, chosen on other text"
ROOTED, SAME = "static without a trunk, chosen on the same text", "static, chosen on the same text"
SELECTOR = "selector"
NAIVE, CROSS = "oracle, judged on the draws it chose by", "oracle, judged on other draws"


def evaluate_selector(selectors: Sequence[Selector], labels: Labels, other: Labels) -> SelectorComparison:
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
        InputError: there is no selector, or they differ in more than the seed; labels are of another pair, other
            actions, another sampling or another verifier; or prompts are judged on which a choice was made.
    """
    first = _checked(selectors, labels, other)
    latency, draws = first.card.latency, labels.of(first.card.verifier)
    seconds, tokens = seconds_of(labels, latency), draws.mean(1)
    else_static = best_static(other.of(first.card.verifier).mean(1), seconds_of(other, latency))
    static = best_static(tokens, seconds)
    trees, longest = labels.space.trees, labels.space.length
    without = np.array([n for n, tree in enumerate(trees) if tree.trunk == 0 and tree.length <= longest])
    rooted = int(without[best_static(tokens[:, without], seconds[:, without])])
    clusters, place = np.unique(labels.prompts, return_inverse=True)

    def run(name: str, chosen: np.ndarray, values: np.ndarray) -> PolicyRun:
        roots = np.arange(len(chosen))
        sums = (np.bincount(place, rows[roots, chosen], len(clusters)) for rows in (values, seconds))
        return PolicyRun(name, *sums)

    every = np.full(len(labels.prompts), 0)
    fixed = {PLAIN: 0, ROOTED: rooted, SAME: static, OTHER: else_static}
    runs = [run(name, every + tree, tokens) for name, tree in fixed.items()]
    shares = []
    for one in selectors:
        chosen = one.chosen(labels.features, labels.sampling).numpy()
        runs.append(run(SELECTOR, chosen, tokens))
        shares.append(np.bincount(chosen, minlength=len(labels.space.trees)) / len(chosen))
    folds: dict[str, list[PolicyRun]] = {NAIVE: [], CROSS: []}
    for judge in range(draws.shape[1]):
        before = np.delete(draws, judge, 1).mean(1)
        chosen = best_by_root(before, seconds)
        folds[NAIVE].append(run(NAIVE, chosen, before))
        folds[CROSS].append(run(CROSS, chosen, draws[:, judge]))
    runs += [_mean(name, parts) for name, parts in folds.items()]
    return SelectorComparison(
        verifier=first.card.verifier,
        baseline=OTHER,
        actions=len(labels.space.actions),
        trees=tuple(map(str, labels.space.trees)),
        static=tuple(str(trees[fixed[name]]) for name in (ROOTED, SAME, OTHER)),
        shares=np.mean(shares, 0),
        roots=np.bincount(place, minlength=len(clusters)),
        prompts=tuple(clusters.tolist()),
        runs=tuple(runs),
        provenance=_provenance(first, labels, other),
    )


def _mean(name: str, parts: list[PolicyRun]) -> PolicyRun:
    """The mean of the sums of some folds."""
    return PolicyRun(name, np.mean([part.tokens for part in parts], 0), np.mean([part.seconds for part in parts], 0))


def _checked(selectors: Sequence[Selector], labels: Labels, other: Labels) -> Selector:
    """The first selector, after a check of all arguments."""
    if not selectors:
        raise InputError("selectors must be at least one, got none: train one first")
    first = selectors[0]
    for one in selectors:
        for name in ("space", "verifier", "pair", "samplings", "prompts"):
            ours, theirs = getattr(first.card, name), getattr(one.card, name)
            if ours != theirs:
                raise InputError(f"selectors must differ in the seed only, but differ in {name}: evaluate them apart")
        if facts_of(one.card.latency) != facts_of(first.card.latency):
            raise InputError("selectors must differ in the seed only, but differ in latency: evaluate them apart")
    for found, whose in ((labels, "labels"), (other, "other")):
        first.card.pair.require(found.pair, f"the pair of {whose}")
        first.require_sampling(found.sampling)
        if found.space != first.card.space:
            raise InputError(
                f"{whose} must have the actions of the selector, {first.card.space}, got {found.space}: compute labels "
                "for these"
            )
    judged = set(labels.prompts.tolist())
    if judged & set(first.card.prompts):
        raise InputError("labels must be of prompts on which the selector was not trained: give labels of other texts")
    if judged & set(other.prompts.tolist()):
        raise InputError("other must be labels of prompts that are not in labels: give the labels of the training")
    return first


def _provenance(selector: Selector, labels: Labels, other: Labels) -> Provenance:
    stamp = labels.provenance
    same = {name: getattr(stamp, name) for name in ("target", "draft", "temperature", "top_k", "top_p")}
    placed = {name: getattr(stamp, name) for name in ("device", "dtype", "attention")}
    trained = selector.card.provenance.settings
    held = {"labels": labels.identity, "other": other.identity, "draws": stamp.settings["draws"]}
    held |= {"other_roots": len(other.prompts), "other_clusters": len(np.unique(other.prompts))}
    held |= {"other_draws": other.provenance.settings["draws"]}
    held |= {"latency": selector.card.latency.summary, "training_steps": trained.get("steps")}
    assumed = (
        "roots are equally spaced in the text; cycles of a run start more rarely after long accepted paths",
        "seconds are those of a cycle whose paths share no token, by the latency, without the selector's own time",
    )
    return Provenance.now("reference.selector.evaluate_selector", packages=("torch",), **same, **placed, settings=held,
        assumptions=assumed, verifier=selector.card.verifier)  # fmt: skip
