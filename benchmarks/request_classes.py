"""What classes of contexts gain over one table of rates, on recorded texts.

    python -m benchmarks.request_classes FILE.jsonl... [TRACE...]

Each text replays a chain of 3 and of 5, as an engine runs it; only the counts of cycles by accepted tokens are kept.
From the counts of one half of the texts, tau of chains of 1 to 15 is predicted on these texts and on the other half,
and compared with replay there. FILE is in the format of SpecDecode-Bench's simulator (docs/replay.md), TRACE a folder
of `spectheory trace`. On greedy traces trees are predicted too, with later ranks from all positions of the same texts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spectheory import Acceptance, DrawRule, Replayed, Replays, RequestClasses, Tree, best_tree, block_efficiency
from spectheory.otlp import Naive
from spectheory.replay.cycle import Text
from spectheory.replay.greedy import FIELD, read_chain_records
from spectheory.verify import Block, Greedy, TopDown, Verifier
from spectheory.yields.class_fitting import RATES, survival
from spectheory.yields.mixing_weights import mixing_weights

COUNTED, PREDICTED, SPLITS = (3, 5), range(1, 16), 4
METHODS = "table", "classes", "one rate per request"
COLUMNS = "texts", "counted chain", *METHODS, "table, other half", "classes, other half", "other half", "covered"


@dataclass(frozen=True)
class Recorded:
    """Texts, and the verifier that is replayed on them."""

    name: str
    texts: list[Text]
    verifier: Verifier

    def part(self, chosen: np.ndarray) -> Recorded:
        return Recorded(self.name, [self.texts[i] for i in chosen], self.verifier)

    def replay(self, tree: Tree) -> Replayed:
        return Replays(self.texts).replay(tree, self.verifier, DrawRule.IID)

    def counts(self, length: int) -> np.ndarray:
        """(requests, length + 1) cycles of a chain by accepted tokens; texts that hold no whole cycle are left out."""
        each = [Recorded(self.name, [text], self.verifier) for text in self.texts if len(text) > length + 1]
        return np.rint([one.replay(Tree.chain(length)).accepted for one in each]).astype(int)

    def truth(self) -> np.ndarray:
        return np.array([self.replay(Tree.chain(k)).tau for k in PREDICTED])


def main(paths: list[Path]) -> None:
    print(f"Root mean square error of tau of chains of 1 to 15, in %; in brackets at 1 and 15. {SPLITS} halvings.\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    every = [recorded for path in paths for recorded in read(path)]
    for recorded in every:
        for length in COUNTED:
            print(row(recorded, length), flush=True)
    for path in paths:
        if path.is_dir() and isinstance(next(read(path)).verifier, Greedy):
            print_trees(path)


def read(path: Path) -> Iterator[Recorded]:
    if path.is_dir():
        from reference.replaying import traced_replays

        replays, temperature = traced_replays(path)
        for verifier in (TopDown(Naive()), Block()) if temperature else (Greedy(),):
            yield Recorded(f"{path.name}, {verifier}", replays.texts, verifier)
        return
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    for drafter in (name for name, value in first.items() if isinstance(value, dict) and FIELD in value):
        yield Recorded(f"{path.stem}, {drafter}", list(read_chain_records(path, drafter)), Greedy())


def row(recorded: Recorded, length: int) -> str:
    errors: dict[str, list[np.ndarray]] = {name: [] for name in COLUMNS[2:-1]}
    covered = []
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(recorded.texts))
        half, other = (recorded.part(part) for part in np.array_split(order, 2))
        counts, truth, there = half.counts(length), half.truth(), other.truth()
        taus = dict(zip(METHODS, (table(counts), classes(counts), one_rate_per_request(counts)), strict=True))
        for name, tau in taus.items():
            errors[name].append(tau / truth - 1)
            if f"{name}, other half" in errors:
                errors[f"{name}, other half"].append(tau / there - 1)
        errors["other half"].append(there / truth - 1)
        found = RequestClasses.from_histogram(counts)
        limits = [found.block_efficiency_interval(Tree.chain(k)) for k in PREDICTED]
        covered.append(np.mean([low <= tau <= high for (low, high), tau in zip(limits, there, strict=True)]))
    shown = [f"{rms(parts):.1f} ({ends(parts)})" for parts in errors.values()]
    return f"| {recorded.name} | {length} | {' | '.join(shown)} | {np.mean(covered):.0%} |"


def table_of(counts: np.ndarray) -> Acceptance:
    reached = counts.sum(0)[::-1].cumsum()[::-1]
    return Acceptance.from_counts(reached[1:, None], reached[:-1])


def table(counts: np.ndarray) -> np.ndarray:
    return np.array([block_efficiency(Tree.chain(k), table_of(counts)) for k in PREDICTED])


def classes(counts: np.ndarray) -> np.ndarray:
    found = RequestClasses.from_histogram(counts)
    return np.array([found.block_efficiency(Tree.chain(k)) for k in PREDICTED])


def one_rate_per_request(counts: np.ndarray) -> np.ndarray:
    """A class is one rate for all cycles of a request; each request's counts weigh the classes of its tokens."""
    depths = counts.shape[1] - 1
    reached = survival(RATES, np.ones(depths), np.zeros(depths))
    cells = np.maximum(np.vstack([reached[:-1] - reached[1:], reached[-1:]]), 1e-300)
    logs = counts @ np.log(cells)
    likely = np.exp(logs - logs.max(1, keepdims=True))
    posterior = likely * mixing_weights(likely, np.ones(len(counts)))
    tokens = (counts @ np.arange(1, depths + 2)) @ (posterior / posterior.sum(1, keepdims=True))
    return np.array([tokens.sum() / (tokens / (RATES[:, None] ** np.arange(k + 1)).sum(1)).sum() for k in PREDICTED])


def rms(parts: list[np.ndarray]) -> float:
    return 100 * float(np.sqrt(np.mean(np.square(parts))))


def ends(parts: list[np.ndarray]) -> str:
    first, *_, last = 100 * np.mean(parts, 0)
    return f"{first:+.1f}, {last:+.1f}"


def print_trees(folder: Path) -> None:
    """Predicted tau of trees, from the counts of a chain of 5 on all texts."""
    from reference.tracing import by_request

    recorded = next(read(folder))
    rates = Acceptance.from_ranks(by_request(folder, "target_rank"), ranks=16)
    found = RequestClasses.from_histogram(recorded.counts(5)).with_ranks(rates)
    positions = RequestClasses.from_acceptance(rates, None)
    print("\n| tree | replay | product of rates | classes, chain of 5 | classes, rates of all positions |")
    print("|" + " --- |" * 5)
    trees = [best_tree(rates, budget) for budget in (16, 32, 64)]
    for tree in (*trees, Tree.k_ary(2, 3), Tree.k_ary(3, 3), Tree.k_ary(2, 5)):
        truth = recorded.replay(tree).tau
        taus = block_efficiency(tree, rates), found.block_efficiency(tree), positions.block_efficiency(tree)
        print(
            f"| {tree} | {truth:.3f} | {' | '.join(f'{tau:.3f} ({100 * (tau / truth - 1):+.1f}%)' for tau in taus)} |"
        )


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
