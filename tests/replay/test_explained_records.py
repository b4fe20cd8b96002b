"""The record of `explain`, its report, bad input, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference.models import Pair
from reference.tracing import TraceSettings, record_trace
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree
from spectheory.core.world import Levels
from spectheory.otlp import RRS, Naive, SpecTr
from spectheory.replay import ChainText, Explained, GreedyText, Replays, explain
from spectheory.replay.misses import ranks_of
from spectheory.report.explained import explained_page, explained_rows, explained_words
from spectheory.results.tally import Tally
from spectheory.verify import Block, Greedy, TopDown, Traversal, name_of
from tests.command_line import Run, refused, succeeded
from tests.refusals import refuses
from tests.replay.inputs import BUSHY, RANKS, prompts
from tests.replay.test_replays import random_text

EXAMPLES: dict[str, Callable[[], Explained]] = {
    "greedy": lambda: explain(Replays([GreedyText(RANKS), GreedyText(RANKS[::-1])]), BUSHY),
    "sampled": lambda: explain(Replays([random_text(seed, n=30) for seed in range(3)]), BUSHY, Traversal()),
    "recorded": lambda: explain(Replays([ChainText(np.maximum(RANKS, 0) % 3, 2)]), Tree.chain(2)),
    "other rule": lambda: explain(Replays([random_text(1, n=8)]), Tree.k_ary(2, 1), TopDown(SpecTr())),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_record_comes_back_and_has_a_report(name: str, tmp_path: Path) -> None:
    found = EXAMPLES[name]()
    found.save(tmp_path / "explained.json")
    assert Explained.load(tmp_path / "explained.json").to_dict() == found.to_dict()
    assert f"tau {found.replayed.tau:.3f}" in explained_words(found)[0]
    assert np.isclose(found.reached.sum(), found.replayed.tau)
    assert np.isclose(found.kept_by_rank.sum(), found.replayed.tau - 1)
    assert explained_page("Why", found).count("<svg") == 3
    assert all(len(row) == len(table.header) for table in explained_rows(found) for row in table.rows)


def tally_like(found: Explained, **stamp: Any) -> Tally:
    """Whole cycles: as many requests as texts, one cycle each that keeps nothing."""
    ones = np.ones(len(found.replayed.cycles), int)
    return Tally(
        emitted=ones, cycles=ones, accepted_histogram=np.array([len(ones)]), provenance=Provenance("test", **stamp)
    )


def test_measured_requests_are_laid_beside_the_replayed_ones() -> None:
    replays = Replays([GreedyText(RANKS), GreedyText(RANKS[::-1])])
    tally = tally_like(explain(replays, BUSHY), tree=BUSHY.identity, verifier="Greedy(solver=ArgMax())")
    found = explain(replays, BUSHY, measured=tally)
    assert found.measured_tau is not None
    assert found.measured_tau.tolist() == [1, 1]
    assert "Measured: tau 1.000" in " ".join(explained_words(found))
    assert explained_rows(found)[-1].header[-1] == "measured"


TEXTS = Replays([GreedyText(RANKS), GreedyText(RANKS[::-1])])
SAMPLED = Replays([random_text(0), random_text(1)])
RECORDED = Replays([ChainText(np.array([0, 2, 1, 0, 1, 0, 2, 1, 0]), 2)])
ONE = Tally(emitted=np.array([1]), cycles=np.array([1]), accepted_histogram=np.array([1]))


def test_bad_input_is_refused_with_its_name_and_value() -> None:
    refuses("tree.*at least one drafted node.*root", explain, TEXTS, Tree.chain(0))
    refuses("measured.*each of the 2 texts.*got 1.*--skip", explain, TEXTS, BUSHY, measured=ONE)
    refuses(
        "measured.*another tree.*that was decoded",
        explain,
        TEXTS,
        BUSHY,
        measured=tally_like(explain(TEXTS, BUSHY), tree="other"),
    )
    refuses(
        r"measured.*by Block.*GreedyMultiPathBlock\(\)",
        explain,
        SAMPLED,
        Tree.chain(2),
        Block(),
        measured=tally_like(explain(SAMPLED, Tree.chain(2)), verifier="GreedyMultiPathBlock()"),
    )
    refuses("closer.*between 0.*1.5", TEXTS.replay, BUSHY, Greedy(), closer=1.5)
    refuses("perfect.*depth.*got 3", TEXTS.replay, BUSHY, Greedy(), perfect=3)
    refuses("perfect.*static tree", SAMPLED.replay, Levels((2,)), TopDown(Naive()), perfect=0)
    refuses("ranks or probabilities.*recorded lengths", RECORDED.replay, Tree.chain(2), Greedy(), closer=0.5)
    refuses("text.*recorded lengths", ranks_of, RECORDED.texts[0])


@pytest.fixture
def records(tmp_path: Path) -> Path:
    file = tmp_path / "records.jsonl"
    rows = [[1, 3, 2, 1, 1, 2, 1, 4, 3, 2, 1, 1], [2, 1, 1, 1, 3, 2, 1, 1, 1, 1]]
    file.write_text("".join(json.dumps({"acc_eagle": {"acc_len": row}}) + "\n" for row in rows))
    return file


def test_the_command_explains_recorded_lengths(run: Run, records: Path) -> None:
    shown = succeeded(run("explain", records))
    assert "on 2 texts: chain of 3." in shown.stdout
    assert "one level less" in shown.stdout
    data = json.loads(run("explain", records, "--json").stdout)
    assert Explained.from_dict(data).tree == Tree.chain(3)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_command_explains_a_trace(tiny: Pair, run: Run, tmp_path: Path, temperature: float) -> None:
    record_trace(tiny, prompts(3), TraceSettings("random", temperature=temperature, new_tokens=20), tmp_path / "trace")
    plan = {"tree": [-1, 0, 0, 1], "verifier": "Traversal" if temperature else "Greedy", "rule": "NO_REPLACEMENT"}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    arguments = "explain", tmp_path / "trace", "--tree", tmp_path / "plan.json"
    shown = succeeded(run(*arguments, "--out", tmp_path / "out"))
    found = Explained.load(tmp_path / "out" / "explained.json")
    assert (found.verifier, found.tree) == (plan["verifier"], Tree(plan["tree"]))
    made = {"explained.json", "index.html", "depths.svg", "choices.svg", "requests.svg"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == made
    assert all(choice.verifier in shown.stdout for choice in found.what_if if choice.verifier)
    if temperature:
        named = json.loads(run(*arguments, "--verifier", "RRS", "--json").stdout)
        assert named["verifier"] == name_of(TopDown(RRS()))
    else:
        refused(run(*arguments, "--verifier", "RRS"), "--verifier must be left out for greedy text")
