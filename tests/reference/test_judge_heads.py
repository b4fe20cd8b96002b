"""Tests of the judge on draft heads: it reads them as decoding does."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reference.decode import Cycle, Decoder
from reference.drafters import PlannedTree, Searched
from reference.drafters.dynamic import Search
from reference.heads import HeadConfig, write_head
from reference.judging import PairDraft, StaticTree
from reference.judging.drafts import ForcedBatch
from reference.judging.evaluation import _forced_rows
from reference.models import Pair
from reference.random_streams import streams
from reference.replaying import replay_drafter
from reference.sampling import Sampling
from spectheory import Eagle2, SpecExec, Tree
from spectheory.results.draft_comparison import DraftComparison
from spectheory.verify import Greedy
from tests.command_line import Run, refused
from tests.conftest import generated
from tests.reference.slow_heads import SlowHead, headed
from tests.reference.tiny_heads import CONFIGS, random_head, random_target
from tests.refusals import refuses

NAMES = ("eagle1", "eagle3", "eagle3.1", "mtp", "parallel")
KINDS = pytest.mark.parametrize("kind", NAMES)


def small(kind: str) -> Pair:
    """A target of 6 tokens with a random head, whose drafts are often right by chance."""
    config = CONFIGS[kind]
    config = replace(config, vocab_size=6, draft_vocab_size=5 if config.draft_vocab_size else None)
    if config.kind == "eagle3":
        config = replace(config, layers=(3, 0, 2))
    target = random_target(vocab_size=6)
    head = random_head(config, dtype=torch.float64)
    tokenizer: Any = None
    return Pair(target, head.attach(target), tokenizer, ("the target", "the head"))


@KINDS
def test_the_judge_reads_a_head_as_decoding_does(kind: str) -> None:
    """Entry [d, b, t] has drafted the last d of the tokens up to t; the texts have different lengths."""
    pair, texts = headed(CONFIGS[kind]), [([5, 6, 7], [8, 9, 30, 31]), ([1, 2], [3, 4])]
    with torch.inference_mode():
        found = PairDraft(pair, 3).logits(ForcedBatch(pair, texts, 0, features=True))
    for place, (prompt, text) in enumerate(texts):
        tokens = [*prompt, *text]
        for end in range(3, len(tokens)):
            for depth in range(3):
                slow = SlowHead(pair, tokens[: end + 1 - depth]).logits(tokens[end + 1 - depth : end + 1])
                torch.testing.assert_close(found[depth, place, end], slow.float(), rtol=1e-5, atol=1e-5)
    refuses("depths must be at least 1, got 0", PairDraft, pair, 0)


@KINDS
@pytest.mark.parametrize("tree", [Tree.chain(3), Tree([-1, 0, 0, 0, 1, 1, 2, 4])], ids=["chain", "tree"])
def test_a_static_tree_of_a_head_makes_the_cycles_of_decoding(kind: str, tree: Tree) -> None:
    """Greedy: what the judge replays on a text is what the decoder did, cycle by cycle."""
    pair = small(kind)
    prompts = [[3, 3, 5, 1], [0, 1, 2, 3, 4, 5] * 3]
    found = [Decoder(pair, PlannedTree(tree)).generate(prompt, 24) for prompt in prompts]
    batch = ForcedBatch(pair, [(p, one.tokens) for p, one in zip(prompts, found, strict=True)], 0, features=True)
    policy, draft, kept = StaticTree(tree, Greedy()), PairDraft(pair, 3), 0
    with torch.inference_mode():
        rows = list(_forced_rows(batch, draft, Sampling()))
    for row, one in zip(rows, found, strict=True):
        starts = 1 + np.cumsum([0, *(accepted + 1 for accepted in one.accepted)])[:-1]
        whole = [accepted for start, accepted in zip(starts, one.accepted, strict=True) if start + 3 < len(one.tokens)]
        judged = policy.drafted(draft, row, Sampling(), 0, 1)
        np.testing.assert_allclose(judged.accepted, np.bincount(whole, minlength=4), atol=1e-12)
        kept += sum(whole)
    assert kept > 4, "nothing was accepted, so nothing was tested of the next cycle"


@pytest.mark.parametrize(
    ("kind", "sampling", "search"),
    [
        pytest.param(*case, marks=[pytest.mark.deep] if number % 3 else [])
        for number, case in enumerate(product(NAMES, (Sampling(), Sampling(1.0)), (Eagle2(3, 3, 8), SpecExec(8, 3))))
    ],
    ids=str,
)
def test_dynamic_trees_of_a_head_make_the_cycles_of_decoding(kind: str, sampling: Sampling, search: Search) -> None:
    """Start, accepted tokens and depth of every cycle, greedy and by sample and match; not deep, every third case."""
    pair, drafter, kept = small(kind), Searched(search), 0
    for prompt in ([3, 3, 5, 1], [0, 1, 2, 3, 4, 5] * 3):
        seen: list[Cycle] = []
        decoder = Decoder(pair, drafter, sampling)
        text = decoder.generate(prompt, 16, *streams(pair, 3), seen.append).tokens
        wanted, start = [], 1
        for cycle in seen:
            wanted.append((start, len(cycle.path), cycle.draft.tree.max_depth))
            start += len(cycle.emitted)
        found = PairDraft(pair, 8).follow(drafter, prompt, text, sampling)
        assert found[:-1] == wanted[: len(found) - 1], "the last cycle may keep tokens beyond the end of the text"
        assert found[-1][0] == wanted[len(found) - 1][0]
        kept += sum(accepted for _, accepted, _ in found)
    assert kept > 4, "nothing was accepted, so nothing was tested of the next cycle"


def test_a_replay_of_a_drafter_takes_heads() -> None:
    pair = small("eagle3")
    prompts = [[1], [5, 2, 2]]
    texts = [generated(pair, prompt, 16) for prompt in prompts]
    found = replay_drafter(pair, Searched(Eagle2(3, 3, 8)), prompts, texts, Sampling())
    assert found.emitted.sum() > found.cycles.sum()


def test_the_command_judges_heads_of_every_layout(run: Run, tiny_folders: Path) -> None:
    """With a static tree and with dynamic ones; a parallel head drafts no deeper than it is."""
    sizes = (48, 300, 4, 2, 8)
    three = HeadConfig("eagle3", 32, *sizes, target_hidden_size=64, draft_vocab_size=100, layers=(0, 1))
    deep = HeadConfig("parallel", 64, *sizes, depths=2)
    for name, config, layout in (("three", three, "speculators"), ("deep", deep, "spectheory")):
        write_head(random_head(config), name, layout)
    pair = "--target", tiny_folders / "target", "--draft", tiny_folders / "draft"
    prompts = [json.dumps({"text": f"def f{i}(x): return x + {i}  # of json"}) for i in range(3)]
    Path("prompts.jsonl").write_text("\n".join(prompts))
    length = "--prompts", "prompts.jsonl", "--prompt-tokens", 8, "--new-tokens", 12, "--count", 3
    groups = "--group", f"draft={tiny_folders / 'draft'}", "--group", "three=three", "--group", "deep=deep"
    options = "--temperature", 1, "--search", "EAGLE-2", "--out", "out"
    result = run("head", "evaluate", *pair, *length, *groups, *options)
    assert result.exit_code == 0, result.output
    found = DraftComparison.load("out/comparison.json")
    assert [(one.group, one.name) for one in found.runs][1:] == [("three", "three"), ("deep", "deep")]
    assert found.runs[2].accepted[3:].sum() == 0, "two tokens is what the parallel head drafts"
    Path("tree.json").write_text("[-1, 0, 1, 2]")
    deeper = run("head", "evaluate", "--trace", "out/texts", *groups, "--tree", "tree.json", "--out", "other")
    refused(deeper, "tree is 3 deep, deep drafts 2 tokens: use a shallower tree")
    Path("tree.json").write_text("[-1, 0, 0, 1]")
    result = run("head", "evaluate", "--trace", "out/texts", *groups, "--tree", "tree.json", "--out", "static")
    assert result.exit_code == 0, result.output
