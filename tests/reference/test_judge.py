"""The judge on tiny models: equal to replay, exactly 0 for equal drafts, resumed, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from reference.drafters import Searched
from reference.forced_logits import forced_texts
from reference.judging import (
    DynamicTrees,
    HeldOutTexts,
    JudgeSettings,
    PairDraft,
    StaticTree,
    judge,
)
from reference.judging.policies import searched
from reference.models import Pair
from reference.replaying import replay_drafter
from reference.sampling import Sampling
from reference.tracing import TraceSettings, record_trace
from spectheory.core.errors import InputError
from spectheory.otlp import RRS, Naive
from spectheory.replay import Replays, TargetText
from spectheory.results.draft_comparison import DraftComparison
from spectheory.verify import Block, Greedy, TopDown, Traversal
from tests.conftest import restless
from tests.reference.judged import Mixture, forced_ranks, replayed
from tests.refusals import refuses
from tests.replay.inputs import prompts

CHAIN, TREE = st.Tree.chain(3), st.Tree([-1, 0, 0, 1, 1, 2])
IID, NO_REPLACEMENT = st.DrawRule.IID, st.DrawRule.NO_REPLACEMENT
STATIC = {
    0.0: [StaticTree(CHAIN, Greedy()), StaticTree(TREE, Greedy())],
    1.0: [
        StaticTree(CHAIN, Block(), IID),
        StaticTree(CHAIN, TopDown(Naive()), IID),
        StaticTree(TREE, Traversal(), NO_REPLACEMENT),
        StaticTree(TREE, TopDown(RRS()), NO_REPLACEMENT),
    ],
}
CASES = [(temperature, policy) for temperature, policies in STATIC.items() for policy in policies]


@pytest.fixture(scope="module")
def traces(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Path]:
    folders: dict[float, Path] = {}

    def recorded(temperature: float) -> Path:
        if temperature not in folders:
            folders[temperature] = tmp_path_factory.mktemp("trace")
            settings = TraceSettings("random", temperature, new_tokens=18)
            record_trace(tiny, prompts(6), settings, folders[temperature])
        return folders[temperature]

    return recorded


@pytest.fixture(scope="module")
def worse(tiny: Pair) -> Pair:
    """The pair with a draft that is further from the target."""
    draft: Any = deepcopy(tiny.draft)
    restless(draft, seed=5, scale=0.05)
    return replace(tiny, draft=draft.eval(), names=(tiny.names[0], "worse"))


@pytest.mark.parametrize(("temperature", "policy"), CASES, ids=lambda one: getattr(one, "name", str(one)))
def test_tau_equals_that_of_replay_and_a_draft_equals_itself(
    tiny: Pair, worse: Pair, traces: Callable[[float], Path], temperature: float, policy: StaticTree, tmp_path: Path
) -> None:
    texts = HeldOutTexts.of_trace(traces(temperature), tiny)
    groups = {"own": [PairDraft(tiny)], "again": [PairDraft(tiny)], "worse": [PairDraft(worse)]}
    found = judge(texts, groups, JudgeSettings(policy), tmp_path)
    by_replay, of_worse = (replayed(texts, pair, policy) for pair in (tiny, worse))
    for run, expected in zip(found.runs, (by_replay, by_replay, of_worse), strict=True):
        assert run.tau == pytest.approx(expected.tau, rel=1e-9)
        assert np.allclose(run.emitted, expected.emitted, rtol=1e-9)
        assert np.allclose(run.accepted, expected.accepted, rtol=1e-9)
    own, again, other = found.rows
    assert (own.difference, again.difference, again.half, again.root_difference) == (None, 0.0, 0.0, 0.0)
    assert again.same
    assert found.difference("again", "own").percent == 0.0
    assert found.difference("again", "own").error == 0.0
    assert other.difference == pytest.approx(100 * (found.runs[2].tau / found.runs[0].tau - 1), rel=1e-9)
    assert found.roots.sum() == sum(max(0, len(text) - policy.deepest - 1) for text in texts.texts)
    found.save(tmp_path / "comparison.json")
    assert DraftComparison.load(tmp_path / "comparison.json").to_dict() == found.to_dict()


def test_a_greedy_root_emits_the_longest_match(tiny: Pair, traces: Callable[[float], Path], tmp_path: Path) -> None:
    """Root by root, against a slow walk down the text."""
    texts = HeldOutTexts.of_trace(traces(0.0), tiny)
    found = judge(texts, {"a": [PairDraft(tiny)], "b": [PairDraft(tiny)]}, JudgeSettings(STATIC[0.0][0]), tmp_path)
    for run, (prompt, text) in enumerate(zip(texts.prompts, texts.texts, strict=True)):
        hits = forced_ranks(tiny, prompt, text) == 0
        by_hand = sum(
            1 + next((kept for kept in range(3) if not hits[start + kept]), 3) for start in range(1, len(text) - 3)
        )
        assert found.runs[0].root_tokens is not None
        assert found.runs[0].root_tokens[run] == by_hand


@pytest.mark.parametrize("policy", STATIC[1.0][:3], ids=lambda policy: policy.name)
def test_a_draft_nudged_towards_the_target_wins_by_what_replay_says(
    tiny: Pair, worse: Pair, traces: Callable[[float], Path], policy: StaticTree, tmp_path: Path
) -> None:
    """The mixture (1 - l) q + l p, which `explain` knows as a closer draft."""
    texts = HeldOutTexts.of_trace(traces(1.0), tiny)
    groups = {"q": [PairDraft(worse)], "half": [Mixture(worse, 0.5)]}
    found = judge(texts, groups, JudgeSettings(policy), tmp_path)
    exact = Replays(forced_texts(worse, texts.prompts, texts.texts, texts.sampling))
    closer = exact.replay(policy.shape, policy.verifier, policy.rule, closer=0.5).tau
    assert found.runs[1].tau == pytest.approx(closer, rel=1e-5)
    row = found.rows[1]
    assert row.difference is not None
    assert row.half is not None
    assert row.difference > row.half
    assert found.runs[1].tau > found.runs[0].tau


def test_a_draft_by_depth_is_read_by_depth(
    tiny: Pair, worse: Pair, traces: Callable[[float], Path], tmp_path: Path
) -> None:
    """Equal to the replay of a text whose q has two depths."""
    texts = HeldOutTexts.of_trace(traces(1.0), tiny)
    policy = STATIC[1.0][0]
    groups = {"q": [PairDraft(worse)], "first": [Mixture(worse, 0.5, by_depth=True)]}
    found = judge(texts, groups, JudgeSettings(policy), tmp_path)
    forced = [
        TargetText(one.tokens, one.p, np.stack([(one.q[0] + one.p) / 2, one.q[0]]))
        for one in forced_texts(worse, texts.prompts, texts.texts, texts.sampling)
    ]
    assert found.runs[1].tau == pytest.approx(Replays(forced).replay(CHAIN, Block(), IID).tau, rel=1e-5)
    assert found.runs[1].calibration_error[0, 0] < found.runs[0].calibration_error[0, 0]


def test_a_draft_that_is_the_target_is_calibrated(tiny: Pair, traces: Callable[[float], Path], tmp_path: Path) -> None:
    texts = HeldOutTexts.of_trace(traces(1.0), tiny)
    perfect = PairDraft(replace(tiny, draft=tiny.target))
    found = judge(texts, {"q": [PairDraft(tiny)], "p": [perfect]}, JudgeSettings(STATIC[1.0][0]), tmp_path)
    assert found.runs[1].tau == pytest.approx(4, rel=1e-6)
    assert np.allclose(found.runs[1].calibration_error, 0, atol=1e-6)
    assert np.allclose(found.runs[1].acceptance, 1, rtol=1e-6)


@pytest.mark.parametrize("name", ["EAGLE-2", "SpecExec"])
def test_dynamic_trees_make_the_cycles_of_replay(
    tiny: Pair, traces: Callable[[float], Path], name: str, tmp_path: Path
) -> None:
    """To equality, where both count the cycles that leave room for the deepest draft."""
    texts, drafter = HeldOutTexts.of_trace(traces(0.0), tiny), searched(name).drafter
    expected = replay_drafter(tiny, drafter, texts.prompts, texts.texts, texts.sampling)
    policy = DynamicTrees(drafter, len(expected.accepted) - 1, name)
    assert policy.limit <= searched(name).limit
    found = judge(texts, {"a": [PairDraft(tiny)], "b": [PairDraft(tiny)]}, JudgeSettings(policy), tmp_path)
    for run in found.runs:
        assert run.accepted.tolist() == expected.accepted.tolist()
        assert run.emitted.tolist() == expected.emitted.tolist()
        assert run.cycles.tolist() == expected.cycles.tolist()
        assert run.root_tokens is None
        reached = expected.accepted[::-1].cumsum()[::-1][:-1]
        assert (run.reliability[:, 0, :, 0].sum(1) <= reached).all()
        assert run.reliability[0, 0, :, 0].sum() == reached[0]
    assert found.rows[1].difference == 0
    refuses("not at all roots: leave roots out", found.difference, "a", "b", roots=True)
    refuses("group must be one of a, b, got 'c'", found.difference, "a", "c")


def test_an_interrupted_comparison_goes_on_and_drafts_are_added(
    tiny: Pair, worse: Pair, traces: Callable[[float], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was written is computed again, and the result is that of one run."""
    monkeypatch.setattr("reference.judging.evaluation.PART", 4)
    texts, settings = HeldOutTexts.of_trace(traces(1.0), tiny), JudgeSettings(STATIC[1.0][2])
    groups = {"own": [PairDraft(tiny)], "closer": [Mixture(worse, 0.5)]}
    whole = judge(texts, groups, settings, tmp_path / "whole")

    def interrupt(finished: int, total: int) -> None:
        assert total == len(texts.texts)
        if finished:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(texts, groups, settings, tmp_path / "parts", interrupt)
    read: list[int] = []
    counted = PairDraft.logits
    monkeypatch.setattr(PairDraft, "logits", lambda self, batch: read.append(batch.first) or counted(self, batch))
    told: list[tuple[int, ...]] = []
    again = judge(texts, groups, settings, tmp_path / "parts", lambda *numbers: told.append(numbers))
    assert told == [(0, len(texts.texts) - 4), (len(texts.texts) - 4, len(texts.texts) - 4)]
    assert sorted(read) == [4, 4]
    assert [row.__dict__ for row in again.rows] == [row.__dict__ for row in whole.rows]
    read.clear()
    judge(texts, groups | {"worse": [PairDraft(worse)]}, settings, tmp_path / "parts")
    assert sorted(read) == [0, 4]


def test_texts_of_one_prompt_are_one_cluster_and_comparisons_add(
    tiny: Pair, worse: Pair, traces: Callable[[float], Path], tmp_path: Path
) -> None:
    trace = HeldOutTexts.of_trace(traces(0.0), tiny)
    settings, groups = JudgeSettings(STATIC[0.0][0]), {"own": [PairDraft(tiny)], "worse": [PairDraft(worse)]}
    whole = judge(trace, groups, settings, tmp_path / "whole")
    halves = [
        judge(replace(trace, prompts=trace.prompts[part], texts=trace.texts[part]), groups, settings, tmp_path / name)
        for name, part in (("first", slice(0, 2)), ("rest", slice(2, None)))
    ]
    assert [row.__dict__ for row in sum(halves).rows] == [row.__dict__ for row in whole.rows]  # type: ignore[union-attr]
    refuses("occurs twice: texts of one prompt are one cluster", sum, halves[:1] * 2)
    with pytest.raises(InputError, match="comparisons with different policy cannot be added"):
        sum([halves[0], judge(trace, groups, JudgeSettings(STATIC[0.0][1]), tmp_path / "other")])
    doubled = replace(trace, prompts=trace.prompts * 2, texts=trace.texts * 2)
    found = judge(doubled, groups, settings, tmp_path / "doubled")
    assert len(found.prompts) == len(trace.prompts)
    assert found.rows[1].difference == pytest.approx(whole.rows[1].difference, rel=1e-9)
    assert found.rows[1].half == pytest.approx(whole.rows[1].half, rel=1e-9)


def test_seeds_of_training_are_one_group(
    tiny: Pair, worse: Pair, traces: Callable[[float], Path], tmp_path: Path
) -> None:
    texts, settings = HeldOutTexts.of_trace(traces(1.0), tiny), JudgeSettings(STATIC[1.0][0])
    runs = [Mixture(worse, share) for share in (0.3, 0.4, 0.5)]
    found = judge(texts, {"q": [PairDraft(worse)], "talf": runs}, settings, tmp_path)
    row, taus = found.rows[1], [run.tau for run in found.runs[1:]]
    assert row.runs == 3
    assert row.tau == pytest.approx(np.mean(taus), rel=1e-12)
    assert row.deviation == pytest.approx(np.std(taus, ddof=1), rel=1e-12)
    with pytest.raises(InputError, match="group talf has the same draft twice"):
        judge(texts, {"q": [PairDraft(worse)], "talf": runs[:1] * 2}, settings, tmp_path)
    with pytest.raises(InputError, match="groups q and talf share a draft but are not equal"):
        judge(texts, {"q": runs[:1], "talf": runs}, settings, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda texts: {"groups": {"one": [PairDraft(texts.pair)]}},
            "groups must hold at least two groups, each with at least one draft, got {'one': 1}",
        ),
        (
            lambda texts: {"settings": JudgeSettings(STATIC[1.0][0])},
            "verifier must be Greedy for texts of temperature 0",
        ),
        (lambda texts: {"settings": JudgeSettings(STATIC[0.0][0], "none")}, "baseline must be one of a, b, got 'none'"),
        (
            lambda texts: {"settings": JudgeSettings(StaticTree(st.Tree.chain(23), Greedy()))},
            "texts must be longer than a cycle of depth 23",
        ),
        (
            lambda texts: {"settings": JudgeSettings(DynamicTrees(Searched(st.Eagle2(4, 4, 16)), 2, "EAGLE-2"))},
            "limit must be at least 3, the depth of a draft of EAGLE-2, got 2",
        ),
        (
            lambda texts: {"texts": replace(texts, pair=replace(texts.pair, target=texts.pair.draft))},
            "the target cannot have generated this text by greedy decoding",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tiny: Pair, traces: Callable[[float], Path], change: Callable, message: str, tmp_path: Path
) -> None:
    texts = HeldOutTexts.of_trace(traces(0.0), tiny)
    groups = {"a": [PairDraft(tiny)], "b": [PairDraft(tiny)]}
    given = {"texts": texts, "groups": groups, "settings": JudgeSettings(STATIC[0.0][0])} | change(texts)
    refuses(message, judge, **given, folder=tmp_path)


def test_a_sampled_text_that_top_k_excludes_is_refused(
    tiny: Pair, traces: Callable[[float], Path], tmp_path: Path
) -> None:
    """With a static tree and with dynamic ones."""
    texts = replace(HeldOutTexts.of_trace(traces(1.0), tiny), sampling=Sampling(1.0, top_k=1))
    groups = {"a": [PairDraft(tiny)], "b": [PairDraft(tiny)]}
    for policy in (STATIC[1.0][0], searched("EAGLE-2")):
        with pytest.raises(InputError, match="the target cannot have generated this text with this sampling"):
            judge(texts, groups, JudgeSettings(policy), tmp_path / policy.verifying)


def test_texts_of_one_source_are_one_cluster(tiny: Pair, traces: Callable[[float], Path], tmp_path: Path) -> None:
    """The results of each text are read again: sums by source are those of its prompts, and tau is the same."""
    texts = HeldOutTexts.of_trace(traces(0.0), tiny)
    sources = tuple("ab"[number % 2] for number in range(len(texts.prompts)))
    groups = {"a": [PairDraft(tiny)], "b": [PairDraft(tiny)]}
    each, both = (
        judge(one, groups, JudgeSettings(STATIC[0.0][0]), tmp_path) for one in (texts, replace(texts, sources=sources))
    )
    assert len(both.prompts) == 2
    assert both.rows[0].tau == pytest.approx(each.rows[0].tau, rel=1e-12)
    assert both.roots.sum() == each.roots.sum()
    refuses("sources must be at least 2 different ones, got 1", replace, texts, sources=("a",) * len(sources))
    refuses("sources must name one for each of", replace, texts, sources=sources[1:])


def test_texts_that_are_not_the_targets_are_refused(tiny: Pair, traces: Callable[[float], Path]) -> None:
    texts = HeldOutTexts.of_trace(traces(0.0), tiny)
    refuses("prompts must be at least 2 different ones, got 1", replace, texts, prompts=texts.prompts[:1] * 6)
    with pytest.raises(InputError, match=r"pair has weights .*, the trace in .* was recorded with"):
        HeldOutTexts.of_trace(traces(0.0), replace(tiny, target=tiny.draft))  # pyrefly: ignore[bad-argument-type]
    refuses("token ids are whole numbers from 0 to 299", replace, texts, texts=[[300]] * 6)
    refuses("tree must have at least one drafted node", StaticTree, st.Tree.chain(0), Greedy())
    refuses("search must be one of OPT-Tree, EAGLE-2, SpecExec, SALF, got 'beam'", searched, "beam")


def test_a_folder_of_another_comparison_is_refused(tiny: Pair, traces: Callable[[float], Path], tmp_path: Path) -> None:
    groups = {"a": [PairDraft(tiny)], "b": [PairDraft(tiny)]}
    judge(HeldOutTexts.of_trace(traces(0.0), tiny), groups, JudgeSettings(STATIC[0.0][0]), tmp_path)
    with pytest.raises(InputError, match="holds a draft comparison with another deepest .3, here 2., policy "):
        judge(HeldOutTexts.of_trace(traces(0.0), tiny), groups, JudgeSettings(STATIC[0.0][1]), tmp_path)
    target: Any = deepcopy(tiny.target)
    restless(target, seed=9, scale=1e-9)
    other = replace(HeldOutTexts.of_trace(traces(0.0), tiny), pair=replace(tiny, target=target))
    refuses("holds a draft comparison with other texts", judge, other, groups, JudgeSettings(STATIC[0.0][0]), tmp_path)


def test_dynamic_trees_with_one_name_and_other_settings_are_other_comparisons(
    tiny: Pair, traces: Callable[[float], Path], tmp_path: Path
) -> None:
    texts, groups = HeldOutTexts.of_trace(traces(0.0), tiny), {"a": [PairDraft(tiny)], "b": [PairDraft(tiny)]}
    smaller, larger = (
        JudgeSettings(DynamicTrees(Searched(st.Eagle2(4, 4, budget)), 4, "EAGLE-2")) for budget in (8, 16)
    )
    judge(texts, groups, smaller, tmp_path)
    refuses("holds a draft comparison with .*policy", judge, texts, groups, larger, tmp_path)


def test_a_record_that_contradicts_itself_is_refused(
    tiny: Pair, traces: Callable[[float], Path], tmp_path: Path
) -> None:
    groups = {"a": [PairDraft(tiny)], "b": [Mixture(tiny, 0.5)]}
    found = judge(HeldOutTexts.of_trace(traces(1.0), tiny), groups, JudgeSettings(STATIC[1.0][0]), tmp_path)
    data = json.loads(json.dumps(found.to_dict()))
    data["runs"][1]["emitted"][0] += 1
    with pytest.raises(st.RecordError, match="the sum of emitted of mixture of 0.5 must be"):
        DraftComparison.from_dict(data)
