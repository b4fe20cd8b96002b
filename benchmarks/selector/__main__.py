"""Compare the selector with static trees and oracles, and write docs/selector.md.

python -m benchmarks.selector label --texts build/trace --out build/labels
python -m benchmarks.selector compare --labels build/labels --work build/selectors
python -m benchmarks.selector page
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.selector.page import section
from reference.judging import HeldOutTexts
from reference.selector import (
    LabelSettings,
    SelectorComparison,
    SelectorTraining,
    evaluate_selector,
    read_labels,
    train_selector,
    write_labels,
)
from spectheory import Latency, Provenance
from spectheory.report.markdown import put

PAGE, RECORDS = Path(__file__).parents[2] / "docs" / "selector.md", Path(__file__).parent / "records"
PLACES = {
    "qwen": ("times of Qwen2.5-32B with Qwen2.5-0.5B on two A100", "qwen2.5-32b", "qwen2.5-0.5b", 2),
    "llama": ("times of Llama-3-70B with Llama-3-8B on four A100", "llama-3-70b", "llama-3-8b", 4),
}
"""Pairs of the source whose seconds are computed, by the name of their records. Llama does not fit on two A100."""
HELD = 1 / 3
"""Share of the prompts that are judged if no labels of other texts are given."""


def latencies(files: Sequence[Path]) -> dict[str, tuple[str, Latency]]:
    """The latencies by the name of their records: those of `PLACES`, or measured ones in files."""
    if files:
        return {file.stem: (f"times of {file.stem}", Latency.load(file)) for file in files}
    return {
        name: (words, Latency.roofline(gpu="a100_80_sxm", gpus=gpus, target=target, draft=draft, context=256))
        for name, (words, target, draft, gpus) in PLACES.items()
    }


def compare(options: argparse.Namespace) -> None:
    """Train a selector for each verifier, latency and seed, and write a record for each verifier and latency."""
    labels = read_labels(options.labels)
    judged, trained = (read_labels(options.test), labels) if options.test else labels.split(HELD)
    for verifier in labels.verifiers:
        for name, (words, latency) in latencies(options.latency).items():
            selectors = [
                train_selector(
                    [trained],
                    latency,
                    SelectorTraining(verifier, seed=seed),
                    options.work / f"{verifier}-{name}-{seed}",
                )
                for seed in range(options.seeds)
            ]
            found = evaluate_selector(selectors, judged, trained)
            record = replace(found, provenance=_placed(found.provenance, words))
            record.save(options.out / f"{verifier.lower()}-{name}.json")
            print(record.summary, flush=True)


def _placed(stamp: Provenance, words: str) -> Provenance:
    """The provenance with the pair of the times, and with the models' folders without the place of this machine."""
    target, draft = ("/".join(Path(str(name)).parts[-2:]) for name in (stamp.target, stamp.draft))
    return stamp.replace(target=target, draft=draft, settings={**stamp.settings, "pair_of_times": words})


def label(options: argparse.Namespace) -> None:
    """Compute labels at the roots of a trace."""
    settings = LabelSettings(tuple(options.verifiers.split(",")), draws=options.draws, seed=options.seed)
    write_labels(HeldOutTexts.of_trace(options.texts), settings, options.out)


def page(options: argparse.Namespace) -> None:
    """Write the measured section of the page from the records."""
    put(options.page, "measured", section([SelectorComparison.load(file) for file in sorted(RECORDS.glob("*.json"))]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("label")
    one.add_argument("--texts", type=Path, required=True, help="folder of a trace above temperature 0")
    one.add_argument("--out", type=Path, required=True, help="folder of the labels; a call continues what is there")
    one.add_argument("--verifiers", default="SpecInfer,Naive", help="node solvers, separated by commas")
    one.add_argument("--draws", type=int, default=4, help="independent draws at each root")
    one.add_argument("--seed", type=int, default=0, help="seed of the draws")
    one.set_defaults(run=label)
    one = commands.add_parser("compare")
    one.add_argument("--labels", type=Path, required=True, help="labels to train on")
    one.add_argument("--test", type=Path, help="labels of other texts to judge; default: a third of the prompts")
    one.add_argument("--work", type=Path, required=True, help="folder of the trained selectors")
    one.add_argument("--latency", type=Path, nargs="*", default=(), help="records of measured times; default: computed")
    one.add_argument("--seeds", type=int, default=3, help="number of trainings")
    one.add_argument("--out", type=Path, default=RECORDS, help="folder of the records")
    one.set_defaults(run=compare)
    one = commands.add_parser("page")
    one.add_argument("--page", type=Path, default=PAGE, help="page to write")
    one.set_defaults(run=page)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    options.run(options)


if __name__ == "__main__":
    main()
