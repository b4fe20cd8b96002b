"""Compare the selector with static trees and oracles, and write docs/selector.md.

python -m benchmarks.selector texts --out build/texts
python -m benchmarks.selector label --files trained --texts build/texts --out build/trained
python -m benchmarks.selector label --files judged --texts build/texts --out build/judged
python -m benchmarks.selector compare --labels build/trained --test build/judged --work build/selectors
python -m benchmarks.selector page
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from benchmarks.selector.page import section
from benchmarks.training.comparing import record_texts
from reference.held_out import sources
from reference.judging import HeldOutTexts
from reference.library_sources import standard_library
from reference.selector import (
    Labels,
    LabelSettings,
    Selector,
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
MEASURED = Path(__file__).parent / "latency.json"
"""Seconds of the shipped pair, by `spectheory profile`."""
COMPUTED = {
    "qwen": ("times of Qwen2.5-32B with Qwen2.5-0.5B on two A100", "qwen2.5-32b", "qwen2.5-0.5b", 2),
    "llama": ("times of Llama-3-70B with Llama-3-8B on four A100", "llama-3-70b", "llama-3-8b", 4),
}
"""Pairs of the source whose seconds are computed, by the name of their records. Llama does not fit on two A100."""
TEMPERATURE = 1.0
"""Temperature of the texts that are written here."""
CALLS = 200
"""Number of timed choices, of which the fastest is recorded."""
HELD = 1 / 3
"""Share of the files that are judged if no labels of other texts are given."""
SHORTEST = 100
"""Files with fewer characters hold no prompt."""
HALVES = {"judged": slice(0, None, 2), "trained": slice(1, None, 2), "all": slice(None)}
"""The held-out files, by name in order, that labels are computed on."""


def latencies(names: Sequence[str]) -> dict[str, tuple[str, Latency]]:
    """What the latencies are of, and the latencies, by the names of their records."""
    return {name: _measured() if name == "shipped" else _computed(*COMPUTED[name]) for name in names}


def _measured() -> tuple[str, Latency]:
    found = Latency.load(MEASURED)
    stamp = found.provenance
    words = f"times of the shipped pair, measured on {stamp.machine}, threads: {stamp.settings['threads']}"
    return "; ".join((words, *stamp.assumptions)), found


def _computed(words: str, target: str, draft: str, gpus: int) -> tuple[str, Latency]:
    return words, Latency.roofline(gpu="a100_80_sxm", gpus=gpus, target=target, draft=draft, context=256)


def compare(options: argparse.Namespace) -> None:
    """Train a selector for each verifier, latency and seed, and write a record for each verifier and latency."""
    labels = read_labels(options.labels)
    judged, trained = (read_labels(options.test), labels) if options.test else labels.split(HELD)
    for verifier in labels.verifiers:
        for name, (words, latency) in latencies(options.times.split(",")).items():
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
            more = {"pair_of_times": words, "choice_seconds": choice_seconds(selectors[0], judged)}
            record = replace(found, provenance=_placed(found.provenance, more))
            record.save(options.out / f"{verifier.lower()}-{name}.json")
            print(record.summary, flush=True)


def choice_seconds(selector: Selector, labels: Labels) -> float:
    """Seconds in which the selector chooses the tree of one root on this machine, the fastest of `CALLS` calls."""
    root = labels.features.at(slice(0, 1))

    def seconds() -> float:
        begun = perf_counter()
        selector.tree(root, labels.sampling)
        return perf_counter() - begun

    return min(seconds() for _ in range(CALLS))


def _placed(stamp: Provenance, more: dict[str, Any]) -> Provenance:
    """The provenance with more settings, and with the models' folders without the place of this machine."""
    target, draft = ("/".join(Path(str(name)).parts[-2:]) for name in (stamp.target, stamp.draft))
    return stamp.replace(target=target, draft=draft, settings={**stamp.settings, **more})


def texts(options: argparse.Namespace) -> None:
    """Let the target continue pieces of the held-out files."""
    record_texts(options.out, TEMPERATURE)


def label(options: argparse.Namespace) -> None:
    """Compute labels at the roots of a trace."""
    settings = LabelSettings(tuple(options.verifiers.split(",")), draws=options.draws, seed=options.seed)
    write_labels(
        texts_by_file(HeldOutTexts.of_trace(options.texts), options.files, options.most), settings, options.out
    )


def texts_by_file(found: HeldOutTexts, half: str, most: int) -> HeldOutTexts:
    """At most `most` texts of each file of a half of the held-out files, evenly spaced in it, with their files.

    Prompts of one file are not independent, so no file is in both halves, and files are the clusters of the intervals.
    """
    files = sources(found.pair, found.prompts)
    names = sorted(file.name for file in standard_library() if file.is_held_out and len(file.text) >= SHORTEST)
    kept: list[int] = []
    for name in names[HALVES[half]]:
        there = [number for number, one in enumerate(files) if one == name]
        kept += [there[place * len(there) // most] for place in range(most)] if len(there) > most else there
    chosen = [found.prompts[n] for n in kept], [found.texts[n] for n in kept]
    return HeldOutTexts(found.pair, *chosen, found.sampling, tuple(files[n] for n in kept))


def page(options: argparse.Namespace) -> None:
    """Write the measured section of the page from the records."""
    put(options.page, "measured", section([SelectorComparison.load(file) for file in sorted(RECORDS.glob("*.json"))]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("texts")
    one.add_argument("--out", type=Path, required=True, help="folder of the trace; a call continues what is there")
    one.set_defaults(run=texts)
    one = commands.add_parser("label")
    one.add_argument("--texts", type=Path, required=True, help="trace of held-out files above temperature 0")
    one.add_argument("--out", type=Path, required=True, help="folder of the labels; a call continues what is there")
    one.add_argument("--verifiers", default="SpecInfer,Naive", help="node solvers, separated by commas")
    one.add_argument("--files", choices=HALVES, default="all", help="held-out files whose texts are labelled")
    one.add_argument("--most", type=int, default=16, help="greatest number of texts of one file")
    one.add_argument("--draws", type=int, default=4, help="independent draws at each root")
    one.add_argument("--seed", type=int, default=0, help="seed of the draws")
    one.set_defaults(run=label)
    one = commands.add_parser("compare")
    one.add_argument("--labels", type=Path, required=True, help="labels to train on")
    one.add_argument("--test", type=Path, help="labels of other texts to judge; default: a third of the files")
    one.add_argument("--work", type=Path, required=True, help="folder of the trained selectors")
    one.add_argument("--times", default="shipped,qwen", help=f"of shipped, {', '.join(COMPUTED)}, separated by commas")
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
