"""The comparison of all trained drafts on held-out texts of the target, at temperature 0 and 1."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import spectheory as st
from benchmarks.training.rows import INDEPENDENT
from reference import tracing
from reference.judging import HeldOutTexts, JudgeSettings, StaticTree, judge
from reference.judging.folders import forced_draft
from reference.library_sources import standard_library
from reference.models import DRAFT, Pair, load_pair
from spectheory import DraftComparison, DrawRule
from spectheory.verify import Greedy, Traversal

BUDGET = 16
"""Nodes of the tree that all drafts draft."""
PROMPT = 64
"""Number of tokens in a prompt."""
EVERY = {0.0: 96, 1.0: 192}
"""By temperature: a prompt starts at every so many tokens of the held-out files."""
NEW_TOKENS = {0.0: 40, 1.0: 48}
"""By temperature: the tokens that the target adds to each prompt."""


def compare(work: Path, drafts: dict[str, list[Path]], temperature: float) -> DraftComparison:
    """All drafts on the same held-out texts, with the tree that is best for the independent draft's measured rates."""
    folder = work / f"texts-held-out-{temperature:g}"
    record_texts(folder, temperature)
    tree = st.best_tree(tracing.acceptance(folder), BUDGET)
    texts = HeldOutTexts.of_trace(folder)
    texts = replace(texts, sources=tuple(name for name, _ in pieces(texts.pair, EVERY[temperature])))
    policy = StaticTree(tree, Greedy()) if temperature == 0 else StaticTree(tree, Traversal(), DrawRule.NO_REPLACEMENT)
    pair = texts.pair
    groups = {INDEPENDENT: [forced_draft(pair, DRAFT, tree.max_depth)]}
    groups |= {name: [forced_draft(pair, run, tree.max_depth) for run in runs] for name, runs in drafts.items()}
    return judge(texts, groups, JudgeSettings(policy), work / f"compared-{temperature:g}", partial(_say, temperature))


def _say(temperature: float, done: int, of: int) -> None:
    print(f"temperature {temperature:g}: {done} of {of} texts")


def record_texts(folder: Path, temperature: float) -> None:
    """Let the target continue pieces of the held-out files of the standard library."""
    pair = load_pair(draft=DRAFT)
    settings = tracing.TraceSettings(
        "pieces of held-out files", temperature, new_tokens=NEW_TOKENS[temperature], batch=16
    )
    tracing.record_trace(pair, [piece for _, piece in pieces(pair, EVERY[temperature])], settings, folder)


def pieces(pair: Pair, every: int) -> list[tuple[str, list[int]]]:
    """Pieces of `PROMPT` tokens, one from every `every` tokens of each held-out file, with the name of the file."""
    files = [file for file in standard_library() if file.is_held_out]
    rows: Any = pair.tokenizer([file.text for file in files], add_special_tokens=False, verbose=False)["input_ids"]
    return [
        (file.name, row[start : start + PROMPT])
        for file, row in zip(files, rows, strict=True)
        for start in range(0, len(row) - PROMPT + 1, every)
    ]
