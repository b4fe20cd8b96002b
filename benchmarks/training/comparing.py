"""The comparison of all trained drafts on held-out texts of the target, at temperature 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import spectheory as st
from benchmarks.training.rows import SHIPPED
from reference import tracing
from reference.judging import HeldOutTexts, JudgeSettings, StaticTree, judge
from reference.judging.folders import forced_draft
from reference.models import load_pair
from reference.prompts import encode_prompts, load_prompts
from spectheory import DraftComparison, DrawRule
from spectheory.verify import Greedy, Traversal

BUDGET = 16
"""Nodes of the tree that all drafts draft."""
PROMPT = 64
"""Number of tokens in a prompt."""
TEXTS = {1.0: ((0,), 128), 0.0: ((0, 32, 64), 64)}
"""By temperature: where prompts start in each held-out piece, and the tokens that the target adds."""


def compare(
    work: Path, drafts: dict[str, list[Path]], temperature: float, done: Callable[[int, int], None]
) -> DraftComparison:
    """All drafts on the same held-out texts, with the tree that is best for the shipped draft's measured rates."""
    folder = work / f"texts-held-out-{temperature:g}"
    record_texts(folder, temperature)
    tree = st.best_tree(tracing.acceptance(folder), BUDGET)
    texts = HeldOutTexts.of_trace(folder)
    policy = StaticTree(tree, Greedy()) if temperature == 0 else StaticTree(tree, Traversal(), DrawRule.NO_REPLACEMENT)
    pair = texts.pair
    groups = {SHIPPED: [forced_draft(pair, Path("shipped"), tree.max_depth)]}
    groups |= {name: [forced_draft(pair, run, tree.max_depth) for run in runs] for name, runs in drafts.items()}
    return judge(texts, groups, JudgeSettings(policy), work / f"compared-{temperature:g}", done)


def record_texts(folder: Path, temperature: float) -> None:
    """Let the target continue pieces of the text of all held-out prompts."""
    starts, new = TEXTS[temperature]
    pair = load_pair()
    pieces = encode_prompts(pair, load_prompts(), max(starts) + PROMPT)
    prompts = [piece[start : start + PROMPT] for start in starts for piece in pieces]
    settings = tracing.TraceSettings("pieces of held-out prompts", temperature, new_tokens=new, batch=16)
    tracing.record_trace(pair, prompts, settings, folder)
