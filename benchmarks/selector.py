"""The selector of delayed trees against static trees and oracles: the tables of docs/selector.md.

python -m benchmarks.selector --work FOLDER --out PAGE.md

The 36 held-out files are in two halves: one for the choices, one that is judged.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from reference import tracing
from reference.judge import HeldOutTexts
from reference.library_sources import standard_library
from reference.models import DRAFT, load_pair
from reference.selector import compare_selectors, selector_labels, train_selector
from reference.selector.comparison import CROSS, LEVEL, NAIVE, OTHER, ROOTED, SAME, SELECTOR
from spectheory import Latency
from spectheory.core.files import write_whole
from spectheory.report.tables import markdown_table

MEASURED = Path(__file__).with_name("selector_latency.json")
"""Seconds of the shipped pair, by `spectheory profile`."""
VERIFIERS = ("Naive", "SpecInfer")
COMPARED = [*((SELECTOR, other) for other in (ROOTED, SAME, OTHER, CROSS)), (NAIVE, CROSS)]
MOST = {"judged": 16, "trained": 350}
"""Greatest number of texts of one file, by half."""


def main() -> None:
    """Compute the labels, train a selector for each verifier, latency and seed, compare, and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selector", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for texts")
    parser.add_argument("--out", type=Path, required=True, help="write the tables here, in Markdown")
    parser.add_argument("--seeds", type=int, default=3, help="number of trainings")
    given = parser.parse_args()
    torch.set_num_threads(1)
    texts = held_out_texts(given.work / "texts")
    computed = Latency.roofline(gpu="a100_80_sxm", gpus=2, target="qwen2.5-32b", draft="qwen2.5-0.5b", context=256)
    latencies = {
        "times of Qwen2.5-32B with Qwen2.5-0.5B on two A100": computed,
        "times of the shipped pair, measured on a CPU": Latency.load(MEASURED),
    }
    parts = []
    for verifier in VERIFIERS:
        labels = {half: selector_labels(half_of(texts, half, most), verifier) for half, most in MOST.items()}
        for words, latency in latencies.items():
            selectors = [train_selector(labels["trained"], latency, seed=seed) for seed in range(given.seeds)]
            found = compare_selectors(selectors, labels["judged"], labels["trained"])
            parts.append(f"### {verifier}, {words}\n\n{markdown_table(found.table())}")
            for one, other in COMPARED:
                paired = found.difference(one, other)
                parts.append(f"- {one} against {other}: {paired.percent:+.2f} ± {paired.half_width(LEVEL):.2f}%")
            print("\n".join(parts[-6:]), flush=True)
    write_whole(given.out, "\n".join(parts))


def held_out_texts(folder: Path) -> HeldOutTexts:
    """The target's continuations at temperature 1 of 64 from every 192 tokens of the held-out files."""
    pair, pieces = load_pair(draft=DRAFT), []
    for file in (file for file in standard_library() if file.is_held_out):
        row: Any = pair.tokenizer(file.text, add_special_tokens=False, verbose=False)["input_ids"]
        pieces += [(file.name, row[start : start + 64]) for start in range(0, len(row) - 63, 192)]
    settings = tracing.TraceSettings("pieces of held-out files", 1.0, new_tokens=96, batch=16)
    tracing.record_trace(pair, [piece for _, piece in pieces], settings, folder)
    return replace(HeldOutTexts.of_trace(folder, pair), sources=tuple(name for name, _ in pieces))


def half_of(texts: HeldOutTexts, half: str, most: int) -> HeldOutTexts:
    """At most `most` texts of each file of a half of the held-out files, evenly spaced in it; no file is in both."""
    sources = texts.sources or ()
    kept: list[int] = []
    for name in sorted(set(sources))[list(MOST).index(half) :: 2]:
        there = [number for number, source in enumerate(sources) if source == name]
        kept += [there[place * len(there) // most] for place in range(most)] if len(there) > most else there
    return replace(
        texts,
        prompts=[texts.prompts[n] for n in kept],
        texts=[texts.texts[n] for n in kept],
        sources=tuple(sources[n] for n in kept),
    )


if __name__ == "__main__":
    main()
