"""Does the choice by replay gain on unseen text? `python -m benchmarks.local_search --trace FOLDER`.

The texts of a trace are split into halves, several times. Trees are chosen on one half and replayed on the other: by
the rates alone, by replay among the candidates of the rates, with counted paths of ranks as candidates too (greedy
texts only), and with the local search on top. All verifiers are tried in each case. Drafts cost no time unless
`--latency` is given, so that the speedup of a tree is its tau.

Below the table: the gain over the choice by rates, and its standard error over texts, texts paired, for the trees as
they were chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from reference.replaying import traced_replays
from reference.tracing import ranks
from spectheory import Acceptance, Latency, Replays
from spectheory.planning.candidates import Candidates, Limits
from spectheory.planning.replayed_choice import ReplayedChoice
from spectheory.planning.replayed_options import Option, ReplayedOptions, fastest
from spectheory.search import best_trees

Choose = Callable[[ReplayedChoice, Latency, int], Option | None]


def by_rates(choice: ReplayedChoice, latency: Latency, context: int) -> Option | None:
    """The fastest tree by the rates that the texts can judge, with its fastest verifier."""
    found = choice.candidates
    for number in np.argsort(-found.speedups(latency, context), kind="stable"):
        if choice.options.can_judge(tree := found.tree(int(number))):
            return fastest(choice.options.of(tree), latency, context)
    return None


def by_replay(choice: ReplayedChoice, latency: Latency, context: int) -> Option | None:
    """The fastest of the trees that the rates propose, each with its fastest verifier."""
    trees = choice.proposed(latency, context)
    return fastest((option for tree in trees for option in choice.options.of(tree)), latency, context)


WAYS: dict[str, Choose] = {
    "rates": by_rates,
    "replay": by_replay,
    "counted": lambda choice, latency, context: choice.fastest_candidate(latency, context),
    "local search": lambda choice, latency, context: choice.fastest(latency, context),
}


def rates_of(texts: list[np.ndarray], budget: int) -> Acceptance:
    """The rates at the starts of cycles of the best tree by the rates of all positions, smoothed."""
    width = 1 + max(int(text.max()) for text in texts)
    first = Acceptance.from_ranks(texts, ranks=width, min_trials=50).smoothed()
    tree = best_trees(first, budget)[-1]
    return Acceptance.from_ranks(texts, ranks=width, min_trials=50, policy=tree).smoothed()


def speeds(chosen: Option, unseen: Replays, latency: Latency, context: int) -> tuple[float, np.ndarray]:
    """The speedup of a choice on unseen texts, and the influence of each of these texts on it."""
    (option,) = ReplayedOptions(unseen).of(chosen.tree, chosen.verifier)
    speed, one = option.speedup(latency, context), option.replayed
    return speed, speed * (one.emitted / one.emitted.sum() - one.cycles / one.cycles.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, required=True, help="folder of a trace")
    parser.add_argument("--latency", type=Path, help="latency record; without it, drafts cost no time")
    parser.add_argument("--budgets", default="8,16,32,64", help="maximum numbers of drafted nodes, comma-separated")
    parser.add_argument("--splits", type=int, default=8, help="number of random splits into halves")
    asked = parser.parse_args()
    latency = Latency.load(asked.latency).smoothed() if asked.latency else Latency.constant()
    context, budgets = latency.context_of(None), [int(budget) for budget in asked.budgets.split(",")]
    texts, recorded = traced_replays(asked.trace)[0].texts, ranks(asked.trace)
    found = np.zeros((asked.splits, len(budgets), len(WAYS)))
    influences = np.zeros((*found.shape, len(texts)))
    for split in range(asked.splits):
        shuffled = np.random.default_rng(split).permutation(len(texts))
        seen, hidden = shuffled[::2], shuffled[1::2]
        known, unseen = (Replays((texts[i] for i in half), seed=split) for half in (seen, hidden))
        for row, budget in enumerate(budgets):
            candidates = Candidates(rates_of([recorded[i] for i in seen], budget), Limits(budget))
            choice = ReplayedChoice(known, candidates)
            for column, choose in enumerate(WAYS.values()):
                if chosen := choose(choice, latency, context):
                    found[split, row, column], each = speeds(chosen, unseen, latency, context)
                    influences[split, row, column, hidden] = each
    print(f"{'budget':>8}" + "".join(f"{name:>14}" for name in WAYS))
    for budget, means in zip(budgets, found.mean(0), strict=True):
        print(f"{budget:>8}" + "".join(f"{mean:14.3f}" for mean in means))
    print("gain over the rates, percent")
    gains = 100 * (found / found[:, :, :1] - 1).mean(0)
    shares = influences / found[..., None]
    errors = 100 * np.sqrt(((shares - shares[:, :, :1]).mean(0) ** 2).sum(-1))
    for budget, gain, error in zip(budgets, gains, errors, strict=True):
        print(
            f"{budget:>8}" + "".join(f"{f'{one:+.2f} ± {half:.2f}':>14}" for one, half in zip(gain, error, strict=True))
        )


if __name__ == "__main__":
    main()
